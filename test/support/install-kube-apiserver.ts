import { kubeApiServer } from './tools/kube-apiserver.ts';

// Prints the path of the API server for the run against it. Builds it first if it is missing.
const installed = await kubeApiServer.findInstalled();
if (installed === undefined) console.error(`Building ${kubeApiServer.name}: five minutes of two cores...`);
console.log(installed ?? (await kubeApiServer.install()));
