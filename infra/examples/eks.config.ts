import type { StatorConfig } from '../settings/index.ts';

/** Worker image, built from `infra/images/worker/Dockerfile` and pushed to a repository of the account. */
const image =
  '123456789012.dkr.ecr.eu-west-1.amazonaws.com/stator-worker@sha256:' +
  '0000000000000000000000000000000000000000000000000000000000000000';

/**
 * Two models with GPUs in pods of a cluster that the deployment makes, whose nodes start when a planner adds pods. A
 * replica of `chat` has two of the four GPUs of a node, on demand first and spot for more. One of `large` spans two
 * nodes. For a cluster of yours, name it in `eks.cluster` and its VPC in `network.vpc`.
 */
const config: StatorConfig = {
  models: {
    // Requests a second that one worker serves: measure yours with `stator profile`.
    'Qwen/Qwen3-32B': { wanted: false, planner: { rate_requests_per_second: 2 } },
    'deepseek-ai/DeepSeek-V3.1': { wanted: false, planner: { rate_requests_per_second: 4 } },
  },
  network: { availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'] },
  eks: {
    admins: ['arn:aws:iam::123456789012:role/Operators'],
    publicCidrs: ['203.0.113.0/24'],
  },
  fleets: {
    chat: {
      kind: 'eks',
      model: 'Qwen/Qwen3-32B',
      generation: 'a1',
      engine: { image, gpusPerReplica: 2, args: ['--max-model-len', '32768'] },
      weights: { uri: 's3://my-models/qwen3-32b/9216db5/' },
      options: [
        { types: ['g6e.12xlarge'], max: 8 },
        {
          types: ['g6e.12xlarge', 'g6e.24xlarge'],
          market: 'spot',
          zones: ['eu-west-1a', 'eu-west-1b'],
          max: 16,
        },
      ],
      replicas: { min: 0, max: 24 },
      startSecs: 480,
    },
    large: {
      kind: 'eks',
      model: 'deepseek-ai/DeepSeek-V3.1',
      engine: { image, gpusPerReplica: 16 },
      weights: { uri: 's3://my-models/deepseek-v3.1/c0b8a1e/' },
      options: [{ types: ['p5.48xlarge'], zones: ['eu-west-1a'], max: 2 }],
      replicas: { max: 2 },
      startSecs: 1200,
      drainSecs: 600,
    },
  },
};

// biome-ignore lint/style/noDefaultExport: what is read of a configuration file
export default config;
