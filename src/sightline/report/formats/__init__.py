"""Results for pipelines: annotations of GitHub, JUnit, SARIF and Markdown. They name nobody."""
