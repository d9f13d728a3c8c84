import type { StatorConfig } from '../settings/index.ts';

/** Worker image, built from `infra/images/worker/Dockerfile` and pushed to a repository of the account. */
const image =
  '123456789012.dkr.ecr.eu-west-1.amazonaws.com/stator-worker@sha256:' +
  '0000000000000000000000000000000000000000000000000000000000000000';

/** Lets workers that decode fetch the blocks of the KV cache that others have computed. */
const TRANSFER = ['--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}'];

/**
 * Two models with GPUs on EC2, whose machines a planner starts from none. `chat` has one pool: four GPUs a machine, two
 * replicas on each, on demand first and spot for more. `code` has a pool for prompts and one for answers. Their
 * machines start from an image that has the image of the workers in it.
 */
const config: StatorConfig = {
  models: {
    // Requests a second that one worker serves: measure yours with `stator profile`.
    'Qwen/Qwen3-32B': { wanted: false, planner: { rate_requests_per_second: 2 } },
    'Qwen/Qwen3-8B': {
      wanted: false,
      planner: { rate_prefill_requests_per_second: 4, rate_decode_requests_per_second: 2 },
    },
  },
  network: { availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'] },
  machineImages: { gpu: { rebuild: 'monthly' } },
  fleets: {
    chat: {
      kind: 'ec2',
      model: 'Qwen/Qwen3-32B',
      generation: 'a1',
      engine: { image, gpusPerReplica: 2, args: ['--max-model-len', '32768'] },
      weights: { uri: 's3://my-models/qwen3-32b/9216db5/', bytes: 66e9 },
      options: [
        { types: ['g6e.12xlarge'], market: 'on-demand', max: 4, warmPool: { min: 1, state: 'Stopped' } },
        {
          types: ['g6e.12xlarge', 'g6e.24xlarge'],
          market: 'spot',
          zones: ['eu-west-1a', 'eu-west-1b'],
          max: 8,
        },
      ],
      replicas: { min: 0, max: 24 },
      startSecs: 480,
      drainSecs: 900,
      ami: { machineImage: 'gpu' },
    },
    'code-prefill': {
      kind: 'ec2',
      model: 'Qwen/Qwen3-8B',
      pool: 'prefill',
      engine: { image },
      weights: { uri: 's3://my-models/qwen3-8b/b968826/', bytes: 16.4e9, mode: 'disk' },
      options: [{ types: ['g6.xlarge'], max: 4 }],
      replicas: { max: 4 },
      startSecs: 300,
      ami: { machineImage: 'gpu' },
      arguments: TRANSFER,
    },
    'code-decode': {
      kind: 'ec2',
      model: 'Qwen/Qwen3-8B',
      pool: 'decode',
      engine: { image },
      weights: { uri: 's3://my-models/qwen3-8b/b968826/', bytes: 16.4e9, mode: 'disk' },
      options: [
        { types: ['g6.xlarge'], max: 6 },
        { types: ['g6.xlarge'], market: 'spot', max: 6 },
      ],
      replicas: { max: 12 },
      startSecs: 300,
      ami: { machineImage: 'gpu' },
      arguments: TRANSFER,
    },
  },
};

// biome-ignore lint/style/noDefaultExport: what is read of a configuration file
export default config;
