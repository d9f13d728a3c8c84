import { groupController } from './tools/group-controller.ts';
import { karpenterDefinitions } from './tools/karpenter-definitions.ts';
import { kubeApiServer, kubeControllers } from './tools/kube-programs.ts';

// Prints the variables that name the programs of Kubernetes for the run against them. Builds those that are missing.
for (const program of [kubeApiServer, kubeControllers, groupController, karpenterDefinitions]) {
  const { name, variable } = program;
  const installed = await program.findInstalled();
  if (installed === undefined) console.error(`Building ${name}: some minutes of two cores...`);
  console.log(`${variable}=${installed ?? (await program.install())}`);
}
