import { writeRendered } from './docs/render-kubernetes.ts';
import { helm } from './tools/go-program.ts';

// Writes the plain manifests of deploy/kubernetes from the chart. Builds Helm first if it is missing.
writeRendered((await helm.findInstalled()) ?? (await helm.install()));
