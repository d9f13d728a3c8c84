import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CfnOutput, Stack, Stage } from 'aws-cdk-lib';
import { type ICluster, KubernetesManifest } from 'aws-cdk-lib/aws-eks-v2';
import { Construct } from 'constructs';
import { stringify } from 'yaml';
import type { ManifestValues } from './manifest-values.ts';
import type { KubeObject } from './objects.ts';

interface ManifestFileProps {
  readonly objects: readonly KubeObject[];
  readonly values: ManifestValues;
  /** Cluster that the deployment applies the objects to. @default none: a person applies the file */
  readonly cluster?: ICluster | undefined;
}

/** Form of the text. Each text is in quotes, so that no value in its place becomes a number. */
const FORM = {
  aliasDuplicateObjects: false,
  lineWidth: 0,
  defaultStringType: 'QUOTE_DOUBLE',
  defaultKeyType: 'PLAIN',
} as const;
/** Folder of the assembly for manifests. */
const FOLDER = 'k8s';
/** Output of a stack with the values of its manifest. */
const VALUES_OUTPUT = 'ManifestValues';

/**
 * Objects of Kubernetes that a stack consists of, beside its resources: a file of the assembly, `k8s/STACK.yaml`. Names
 * that only the deployment knows are an output of the stack, which `infra/fill-manifest.mjs` puts into the file.
 */
export class ManifestFile extends Construct {
  constructor(scope: Construct, id: string, { objects, values, cluster }: ManifestFileProps) {
    super(scope, id);
    const stack = Stack.of(this);
    const { stackName } = stack;
    const folder = join(Stage.of(this)?.outdir ?? 'cdk.out', FOLDER);
    mkdirSync(folder, { recursive: true });
    const how =
      cluster === undefined
        ? `# docs/kubernetes.md says how to apply it: values are in the output ${VALUES_OUTPUT} of ${stackName}.`
        : `# The deployment of ${stackName} applies it.`;
    const texts = objects.map((object) => stringify(object, FORM));
    writeFileSync(join(folder, `${stackName}.yaml`), `${how}\n---\n${texts.join('---\n')}`);
    const value = stack.toJsonString(values.known);
    const description = `Values of the manifest ${FOLDER}/${stackName}.yaml`;
    new CfnOutput(stack, VALUES_OUTPUT, { value, description });
    if (cluster !== undefined)
      new KubernetesManifest(this, 'Applied', { cluster, manifest: objects.map((each) => ({ ...values.fill(each) })) });
  }
}
