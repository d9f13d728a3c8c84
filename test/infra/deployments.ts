import example from '../../infra/examples/ec2.config.ts';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { OURS } from './eks-deployments.ts';
import { devTemplate, productionTemplates, type Resource } from './templates.ts';

const CERTIFICATE = 'arn:aws:acm:eu-west-1:123456789012:certificate/a';
/** Every part that a deployment may have. */
export const EVERYTHING = {
  edges: { container: { listener: 'public', grpc: true }, function: { url: true, concurrencyMax: 100 } },
  domain: { name: 'llm.example.com', containerName: 'edge.example.com', certificateArn: CERTIFICATE },
  limits: { requestsPerAddress: 1000 },
  nats: { websocket: true },
  network: { flowLogs: true },
} as const satisfies StatorConfig;

/** The example with GPUs on EC2, beside workers without. */
export const GPUS: StatorConfig = {
  ...example,
  models: { ...example.models, 'stator-mini': {} },
  fleets: { ...example.fleets, mock: { kind: 'mock', model: 'stator-mini' } },
};

/** The example with GPUs in pods of EKS, beside workers without. */
const PODS: StatorConfig = {
  ...OURS,
  models: { ...OURS.models, 'stator-mini': {} },
  fleets: { ...OURS.fleets, mock: { kind: 'mock', model: 'stator-mini' } },
};

/** Models of the example without laws, for deployments with only some of its fleets: a law needs a fleet. */
export const MODELS = Object.fromEntries(Object.keys(GPUS.models ?? {}).map((model) => [model, { wanted: false }]));

export const DEPLOYMENTS = ['dev', 'production', 'everything', 'gpus', 'pods'] as const;
export type Deployment = (typeof DEPLOYMENTS)[number];

const CONFIGS: Readonly<Record<Deployment, StatorConfig>> = {
  dev: {},
  production: {},
  everything: EVERYTHING,
  gpus: GPUS,
  pods: PODS,
};

/** All resources of a deployment, each with the logical id of its stack. */
export function deploymentOf(name: Deployment, more: StatorConfig = {}): readonly (readonly [id: string, Resource])[] {
  const config = { ...CONFIGS[name], ...more };
  const templates = name === 'dev' ? [devTemplate(config)] : Object.values(productionTemplates(config));
  return templates.flatMap((template) =>
    Object.entries((template.toJSON() as { Resources: Record<string, Resource> }).Resources),
  );
}
