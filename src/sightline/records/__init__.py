"""Release records of other libraries: what they published with which noise, in and out."""
