"""The files of iTar datasets: folders and folds (`fold`), indexes (`entry`), names (`utils`)."""
