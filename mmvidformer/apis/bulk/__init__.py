"""Answers for many videos: labels and features, in this process and its workers, or on Ray.

The videos are cut into parts, and these into groups. An ``Answerer`` holds the model and makes rows
of the clips of a group. ``run`` is the one loop over groups; ``on_ray`` runs it in actors. A table
(``parquet``) or a folder of files (``video_files``) takes the parts as they come, each as a whole.
"""
