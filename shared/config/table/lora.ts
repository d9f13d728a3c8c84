import { EDGES } from '../processes.ts';
import { bool, folder, int, secret, url } from '../row.ts';

/** Rows of "LoRA". */
export const loraRows = {
  loraEnabled: bool({
    env: ['DYN_LORA_ENABLED'],
    default: false,
    usedBy: ['worker'],
    source: '1.6.1',
    about: 'Opens the LoRA routes of the control server.',
  }),
  loraPath: folder({
    env: ['DYN_LORA_PATH'],
    written: true,
    defaultText: 'home/.cache/dynamo_loras',
    usedBy: ['worker'],
    source: '1.6.1',
    about: 'Cache of adapters.',
  }),
  enableLora: bool({
    flags: ['--enable-lora'],
    defaultText: "engine's",
    usedBy: ['worker'],
    source: 'engine',
    about: 'The engine serves adapters.',
  }),
  maxLoraRank: int({
    flags: ['--max-lora-rank'],
    defaultText: "engine's",
    usedBy: ['worker'],
    source: 'engine',
    about: 'Largest rank of an adapter in the engine.',
  }),
  maxLoras: int({
    flags: ['--max-loras'],
    defaultText: "engine's",
    usedBy: ['worker'],
    source: 'engine',
    about: 'Adapters in one step of the engine.',
  }),
  vllmAllowRuntimeLoraUpdating: bool({
    env: ['VLLM_ALLOW_RUNTIME_LORA_UPDATING'],
    defaultText: 'true when LoRA is enabled',
    usedBy: ['worker'],
    source: 'engine',
    about: 'Set for a started engine.',
  }),
  awsAccessKeyId: secret({
    env: ['AWS_ACCESS_KEY_ID'],
    defaultText: 'standard credential chain',
    usedBy: ['worker'],
    source: '1.6.1',
    about: 'Access key id of the AWS clients.',
  }),
  awsSecretAccessKey: secret({
    env: ['AWS_SECRET_ACCESS_KEY'],
    defaultText: 'standard credential chain',
    usedBy: ['worker'],
    source: '1.6.1',
    about: 'Secret access key of the AWS clients.',
  }),
  awsEndpoint: url({
    env: ['AWS_ENDPOINT'],
    defaultText: 'standard credential chain',
    usedBy: [...EDGES, 'worker'],
    source: '1.6.1',
    about: 'S3 endpoint of adapters and of STATOR_ARTIFACTS_BUCKET.',
  }),
  awsAllowHttp: bool({
    env: ['AWS_ALLOW_HTTP'],
    defaultText: 'standard credential chain',
    usedBy: [...EDGES, 'worker'],
    source: '1.6.1',
    about: 'Permits plain HTTP to that endpoint.',
  }),
};
