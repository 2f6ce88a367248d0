#!/bin/sh
#SBATCH --array=0-7
#SBATCH --cpus-per-task=4
# Packs a folder on a Slurm cluster: each job of the array is one task. Submit it, and then the commit:
#
#     job=$(sbatch --parsable array.sh PICTURES DATA)
#     sbatch --dependency=afterok:$job --wrap "tarn commit DATA"
#
# A job of the array that was killed is submitted again (--array=3); parts that are complete do nothing.
exec tarn pack "$1" -o "$2" --task "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
