/* What slurmstepd, srun and sbatch call. */
#include "pyxis.h"

SPANK_PLUGIN(pyxis, 1)

int slurm_spank_init(spank_t spank, int count, char **words)
{
	return register_options(spank, count, words);
}

static int wanted(void)
{
	return value[IMAGE] || value[NAME];
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char **words)
{
	(void)count, (void)words;
	if (options_from_environment(spank))
		return -1;
	if (wanted())
		return make_container(spank);
	for (int i = 0; i < VALUES; i++)
		if (value[i])
			slurm_error("pyxis: ignoring --container-%s because neither --container-image "
				    "nor --container-name is set", value_name[i]);
	return 0;
}

/* slurmstepd goes to the job's folder between the two: a container is entered after that. */
int slurm_spank_task_init(spank_t spank, int count, char **words)
{
	(void)spank, (void)count, (void)words;
	return wanted() ? enter_container() : 0;
}
