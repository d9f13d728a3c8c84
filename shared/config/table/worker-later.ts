import { bool, decimal, list, port, text } from '../builders.ts';

/** Rows of "Worker and vLLM engine", one part of them. */
export const workerLaterRows = {
  vllmNixlSideChannelHost: text({
    env: ['VLLM_NIXL_SIDE_CHANNEL_HOST'],
    defaultText: 'own address',
    usedBy: ['worker'],
    source: '1.6.1',
    built: true,
    about: 'Host of the side channel of the NIXL connector; set to the own address when unset.',
  }),
  vllmNixlSideChannelPort: port({
    env: ['VLLM_NIXL_SIDE_CHANNEL_PORT'],
    defaultText: "engine's",
    usedBy: ['worker'],
    source: '1.6.1',
    built: true,
    about: 'Port of the side channel of the NIXL connector.',
  }),
  vllmServerDevMode: bool({
    env: ['VLLM_SERVER_DEV_MODE'],
    defaultText: '1 for an engine that is started, on loopback',
    usedBy: ['worker'],
    source: 'engine',
    built: true,
    about: 'Opens development routes of a started engine, sleep and wake included.',
  }),
  vllmLogStatsIntervalSecs: decimal({
    env: ['VLLM_LOG_STATS_INTERVAL'],
    above: 0,
    unit: 's',
    default: 10,
    usedBy: ['worker'],
    source: 'engine',
    built: true,
    about: 'Interval of engine statistics.',
  }),
  connector: list({
    flags: ['--connector'],
    env: ['DYN_CONNECTOR'],
    default: [],
    usedBy: ['worker'],
    source: '1.6.1: rejected',
    built: true,
    about: 'Rejected; the error shows the --kv-transfer-config to use.',
  }),
};
