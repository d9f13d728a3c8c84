import { EVERY_ADDRESS, everyAddress } from '../listen-hosts.ts';
import { rowsFor } from '../row.ts';

const host = rowsFor('host');

/** Times the expected time of a start after which it is given up, as the help of `--host-start-secs` says. */
export const START_FACTOR = 2;

/** Rows of "Host of GPU workers". */
export const hostRows = {
  hostGroup: host.text({
    names: '--host-group STATOR_HOST_GROUP',
    defaultText: 'unset = no Auto Scaling',
    about: 'Auto Scaling group of this instance.',
  }),
  hostLaunchHook: host.text({
    names: '--host-launch-hook STATOR_HOST_LAUNCH_HOOK',
    defaultText: 'unset = no hook',
    about: 'Lifecycle hook that holds a new instance until its workers serve; needs --host-group.',
  }),
  hostTerminateHook: host.text({
    names: '--host-terminate-hook STATOR_HOST_TERMINATE_HOOK',
    defaultText: 'unset = no hook',
    about: 'Lifecycle hook that holds an ending instance until its workers have drained; needs --host-group.',
  }),
  hostHeartbeatSecs: host.decimal({
    names: '--host-heartbeat-secs STATOR_HOST_HEARTBEAT_SECS',
    range: { above: 0, max: 3600, unit: 's' },
    default: 100,
    about: 'Interval between heartbeats of a lifecycle hook: at most a third of the heartbeat timeout of the hook.',
  }),
  hostRunner: host.choice({
    names: '--host-runner STATOR_HOST_RUNNER',
    values: ['docker', 'process'],
    decide: (facts) => (facts.read('hostWorkerImage') === undefined ? 'process' : 'docker'),
    defaultText: 'docker with --host-worker-image, else process',
    about: 'How workers run: as containers, or as processes of this program.',
  }),
  hostWorkerImage: host.text({
    names: '--host-worker-image STATOR_HOST_WORKER_IMAGE',
    about: 'Image of the containers, best by its digest; --host-runner docker needs it.',
  }),
  hostWorkerArguments: host.jsonTexts({
    names: '--host-worker-arguments STATOR_HOST_WORKER_ARGUMENTS',
    defaultText: '[]',
    about: 'Arguments of each stator worker; {weights} in one stands for the place of the weights.',
  }),
  hostGpus: host.int({
    names: '--host-gpus STATOR_HOST_GPUS',
    range: { min: 0, max: 64 },
    defaultText: 'unset = as many as nvidia-smi lists',
    note: '0 = one worker without a GPU',
    about: 'GPUs of this machine.',
  }),
  hostGpusPerReplica: host.int({
    names: '--host-gpus-per-replica STATOR_HOST_GPUS_PER_REPLICA',
    range: { min: 1, max: 64 },
    default: 1,
    about: 'GPUs of one worker; the machine runs as many workers as have room.',
  }),
  hostWeightsUri: host.text({
    names: '--host-weights-uri STATOR_HOST_WEIGHTS_URI',
    allowed: 's3://bucket/prefix/',
    about: 'Weights of the model, under a name that no other weights ever have.',
  }),
  hostWeightsBytes: host.decimal({
    names: '--host-weights-bytes STATOR_HOST_WEIGHTS_BYTES',
    range: { min: 0, max: 1e15 },
    defaultText: 'unset = their sizes in the bucket',
    about: 'Size of the weights, for the progress that logs show.',
  }),
  hostWeightsMode: host.choice({
    names: '--host-weights-mode STATOR_HOST_WEIGHTS_MODE',
    values: ['stream', 'disk'],
    default: 'stream',
    about: 'stream: the engine reads the bucket itself; disk: the files are copied to --host-dir first.',
  }),
  hostStartSecs: host.decimal({
    names: '--host-start-secs STATOR_HOST_START_SECS',
    range: { above: 0, max: 86_400, unit: 's' },
    default: 600,
    about: 'Expected time from the boot to workers that serve; a start of twice that time is given up.',
  }),
  hostDrainSecs: host.decimal({
    names: '--host-drain-secs STATOR_HOST_DRAIN_SECS',
    range: { above: 0, max: 172_800, unit: 's' },
    default: 900,
    about: 'Longest time in which workers may finish their requests before they end.',
  }),
  hostGeneration: host.text({
    names: '--host-generation STATOR_HOST_GENERATION',
    about: 'Generation of the fleet, which workers register as a fact of their machine.',
  }),
  hostMarket: host.choice({
    names: '--host-market STATOR_HOST_MARKET',
    values: ['on-demand', 'spot', 'capacity-block'],
    defaultText: 'instance-life-cycle of the metadata',
    about: 'How the instance was bought.',
  }),
  hostEndsAt: host.text({
    names: '--host-ends-at STATOR_HOST_ENDS_AT',
    allowed: 'ISO 8601 time',
    defaultText: 'unset = no end',
    about: 'End of the capacity block; the workers have drained 30 minutes before, when EC2 begins to end instances.',
  }),
  hostDir: host.folder({
    names: '--host-dir STATOR_HOST_DIR',
    written: true,
    defaultText: '$XDG_STATE_HOME/stator/host, else ~/.local/state/stator/host',
    about: 'Folder for weights, compile caches, logs of worker processes, and what a new agent must know.',
  }),
  hostWorkerPort: host.port({
    names: '--host-worker-port STATOR_HOST_WORKER_PORT',
    range: { min: 1 },
    default: 8800,
    about: 'Port of the request plane of the first worker; each further worker has the next port.',
  }),
  hostStatusPort: host.port({
    names: '--host-status-port STATOR_HOST_STATUS_PORT',
    range: { min: 1 },
    default: 9100,
    about: 'Port of the status server of the first worker; each further worker has the next port.',
  }),
  hostPort: host.port({
    names: '--host-port STATOR_HOST_PORT',
    note: '0 = any free',
    default: 9099,
    about: 'Port of /health and /metrics of the host.',
  }),
  hostAddress: host.text({
    names: '--host-address STATOR_HOST_ADDRESS',
    allowed: 'IP',
    decide: everyAddress,
    defaultText: EVERY_ADDRESS,
    about: 'Address to which that port is bound.',
  }),
  hostPollSecs: host.decimal({
    names: '--host-poll-secs STATOR_HOST_POLL_SECS',
    range: { min: 0.05, max: 60, unit: 's' },
    default: 5,
    about: 'Interval at which the metadata of the instance and its GPUs are read.',
  }),
  hostKernelLog: host.file({
    names: '--host-kernel-log STATOR_HOST_KERNEL_LOG',
    defaultText: '/dev/kmsg',
    about: 'Kernel log, in which the driver of the GPUs reports their faults.',
  }),
  imdsUrl: host.url({
    names: '--imds-url STATOR_IMDS_URL',
    schemes: ['http', 'https'],
    default: 'http://169.254.169.254',
    about: 'Instance metadata service.',
  }),
};
