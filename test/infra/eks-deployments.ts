import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Template } from 'aws-cdk-lib/assertions';
import { LayerVersion } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import example from '../../infra/examples/eks.config.ts';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { readManifests } from '../support/kube/manifests.ts';
import { openApp, productionStacks, templatesIn } from './templates.ts';

type Fleets = NonNullable<StatorConfig['fleets']>;
export type EksFleetConfig = Extract<Fleets[string], { kind: 'eks' }>;

/** The example: in a cluster that the deployment makes. */
export const OURS: StatorConfig = example;

const VPC = {
  id: 'vpc-0123456789abcdef0',
  availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'],
  privateSubnetIds: ['subnet-1a', 'subnet-1b', 'subnet-1c'],
};
export const CLUSTER = { name: 'gpus', securityGroupId: 'sg-0123456789abcdef0' };

/** The example in a cluster and a network of the user's. */
export const YOURS: StatorConfig = { ...example, network: { vpc: VPC }, eks: { cluster: CLUSTER } };

/** The models of the example without laws, for deployments with only some of its fleets. */
export const EKS_MODELS = Object.fromEntries(
  Object.keys(example.models ?? {}).map((model) => [model, { wanted: false }]),
);

/** An object of a manifest, as the tests here look at it. */
export interface KubeDocument {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly rules?: readonly object[];
}

export interface EksDeployment {
  readonly templates: Readonly<Record<string, Template>>;
  /** Objects of the manifest of a stack. */
  objects(stack: string): readonly KubeDocument[];
  /** Text of that manifest. */
  text(stack: string): string;
}

const known = new Map<string, EksDeployment>();

/** Synthesises production. @param isApplied whether the deployment has a layer with kubectl */
export function deployEks(config: StatorConfig = OURS, isApplied = false): EksDeployment {
  const key = JSON.stringify([config, isApplied]);
  const before = known.get(key);
  if (before !== undefined) return before;
  const app = openApp();
  const stacks = isApplied ? productionStacks(app, config, 'gradual', kubectl) : productionStacks(app, config);
  const templates = templatesIn(stacks);
  const text = (stack: string) => readFileSync(join(app.outdir, 'k8s', `Stator-${stack}.yaml`), 'utf8');
  const made = {
    templates,
    text,
    objects: (stack: string) => readManifests(text(stack)) as unknown as readonly KubeDocument[],
  };
  known.set(key, made);
  return made;
}

/** Stands for the layer with kubectl, which the tests do not install. */
export function kubectl(scope: Construct) {
  return LayerVersion.fromLayerVersionArn(scope, 'Kubectl', 'arn:aws:lambda:eu-west-1:123456789012:layer:kubectl:1');
}
