import { showDefault, showValue } from './describe.ts';
import { needsOf } from './needs.ts';
import type { Command, Process, Row } from './row.ts';
import { GROUPS, type NamedRow, rowsOf, type SettingName, TABLE } from './table.ts';

const WIDTH = 96;
const INDENT = '      ';
/** Column at which the brief help explains a flag. */
const ABOUT_COLUMN = 32;

/** Breaks `text` into lines of at most `WIDTH` characters, each after `indent`. */
function wrapText(text: string, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > WIDTH) {
      lines.push(indent + line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, indent + line].join('\n');
}

function headOf(row: Row): string {
  if (row.type.arity === 'rest') return '-- ARGUMENTS';
  const names = row.flags.length > 0 ? row.flags.join(', ') : row.env.join(', ');
  if (row.type.arity === 'switch' && row.flags.length > 0) return `${names}, --no-${row.flags[0]?.slice(2)}`;
  return `${names} <${row.type.name}>`;
}

function notesOf(row: Row): string {
  const variables = row.flags.length > 0 && row.env.length > 0 ? [`Variable ${row.env.join(', ')}.`] : [];
  const allowed = row.allowed === '' ? [] : [`Allowed: ${row.allowed}.`];
  return [...allowed, `Default: ${showDefault(row)}.`, ...variables].join(' ');
}

function describeRow([setting, row]: NamedRow, process: Process): string {
  const about = [row.about, needsOf(setting, process)].join(' ').trimEnd();
  return [wrapText(headOf(row), '  '), wrapText(about, INDENT), wrapText(notesOf(row), INDENT)].join('\n');
}

/** Returns the full help: every setting of `process`, by section. */
export function renderHelp(process: Process): string {
  const sections = GROUPS.flatMap((group) => {
    const rows = rowsOf(process, group.rows);
    return rows.length === 0 ? [] : [`${group.title}\n${rows.map((row) => describeRow(row, process)).join('\n')}`];
  });
  return `${sections.join('\n\n')}\n`;
}

function briefHead(row: Row, { flag = row.flags[0], value = valueName(row) }: Asked): string {
  if (row.type.arity === 'rest') return '-- ARGUMENTS';
  const letter = row.flags.find((name) => !name.startsWith('--'));
  const names = letter === undefined ? `${flag}` : `${letter}, ${flag}`;
  return row.type.arity === 'switch' ? names : `${names} ${value}`;
}

/** Returns the type without its unit: `int s` becomes INT. */
function valueName(row: Row): string {
  return row.type.name.replace(/\W.*/, '').toUpperCase();
}

function briefLine(process: Process, asked: Asked): string {
  const { setting, about } = asked;
  const row = TABLE.get(setting);
  if (row === undefined) throw new Error(`no row ${setting}`);
  const own = row.defaultFor[process] ?? row.default;
  const hasOwn = typeof own === 'number' || (typeof own === 'string' && own !== '');
  const text = hasOwn && !about.includes('default') ? `${about} (default: ${showValue(row, own)})` : about;
  const head = `  ${briefHead(row, asked)}`;
  const [first = '', ...more] = wrapText(text, ' '.repeat(ABOUT_COLUMN)).split('\n');
  if (head.length > ABOUT_COLUMN - 2) return [head, first, ...more].join('\n');
  return [head + first.slice(head.length), ...more].join('\n');
}

/** Returns the brief help: the examples and the dozen most important flags of `command`; `renderHelp` has all. */
export function renderBriefHelp(command: Command): string {
  const { examples, flags } = BRIEFS[command];
  const shown = Object.entries(examples).map(([example, about]) => `  ${example}\n${wrapText(about, INDENT)}`);
  return `Examples\n${shown.join('\n')}\n\nFlags\n${flags.map((flag) => briefLine(command, flag)).join('\n')}\n`;
}

/** One flag of the brief help, in words for a beginner. */
interface Asked {
  readonly setting: SettingName;
  /** Name of the flag to show. @default the first */
  readonly flag?: string;
  /** Purpose of the flag; the row's own text says what it does. The default is added unless this text gives it. */
  readonly about: string;
  /** Placeholder for the value. @default the name of its type */
  readonly value?: string;
}

/** First part of `stator COMMAND --help`. */
interface Brief {
  /** Command lines, and what each of them does. */
  readonly examples: Readonly<Record<string, string>>;
  readonly flags: readonly Asked[];
}

const MODEL_PATH = { setting: 'modelPath', value: 'MODEL' } as const;
const HTTP_PORT: Asked = { setting: 'httpPort', about: 'Port for clients; 0 takes any free one' };
const ROUTER_MODE: Asked = {
  setting: 'routerMode',
  value: 'MODE',
  about:
    'Way to choose a worker: round-robin, random, power-of-two, least-loaded, direct, or kv (by how much of the prompt it has cached)',
};
const DISCOVERY: Asked = {
  setting: 'discoveryBackend',
  value: 'WHERE',
  about:
    'Store in which workers and frontends find each other: file (this machine; the default without a table), dynamodb, etcd, kubernetes or mem',
};
const NAMESPACE: Asked = { setting: 'namespace', value: 'NAME', about: 'Fleet that this process belongs to' };
const DUMP: Asked = {
  setting: 'dumpConfigTo',
  value: 'FILE',
  about: 'Writes every setting with its effective value and its source',
};

const LOCAL: Brief = {
  examples: {
    'stator local': 'serves two mock workers at http://127.0.0.1:8000, without a GPU, a model or a cloud',
    'stator local --router-mode kv': 'sends each request to the worker that has most of its prompt cached',
    'stator local --engine openai --engine-url http://127.0.0.1:8001':
      'runs in front of your own server, which speaks the OpenAI API',
  },
  flags: [
    {
      ...MODEL_PATH,
      about:
        'Folder, or id on the Hugging Face Hub, of a model with tokenizer and chat template (default: a small built-in one)',
    },
    { setting: 'engine', value: 'ENGINE', about: 'mocker (default), openai, vllm or sglang' },
    { setting: 'engineUrl', value: 'URL', about: 'Running server to use, for openai, vllm and sglang' },
    ROUTER_MODE,
    { setting: 'numWorkers', about: 'Number of mock workers' },
    { setting: 'numPrefillWorkers', about: 'Number of workers that only compute prompts, with --num-decode-workers' },
    { setting: 'numDecodeWorkers', about: 'Number of workers that only write answers, with --num-prefill-workers' },
    { setting: 'speedupRatio', about: 'Factor by which mock workers answer faster than a GPU' },
    { setting: 'interactive', about: 'Chats in this terminal instead of serving' },
    { setting: 'httpHost', value: 'ADDRESS', about: 'Address to listen on' },
    HTTP_PORT,
    DUMP,
  ],
};

const FRONTEND: Brief = {
  examples: {
    'stator frontend --discovery-backend file --router-mode kv':
      'serves the workers of this machine, and sends each request to the one with most of its prompt cached',
    'STATOR_DISCOVERY_TABLE=stator stator frontend': 'serves the workers that register in a DynamoDB table',
    'stator frontend --discovery-backend file --enable-anthropic-api --http-port 8080':
      'serves Anthropic Messages and the OpenAI API, on another port',
  },
  flags: [
    DISCOVERY,
    { ...NAMESPACE, about: 'Serves only the models of this fleet (default: all)' },
    ROUTER_MODE,
    { setting: 'httpHost', value: 'ADDRESS', about: 'Address to listen on (default: every one)' },
    HTTP_PORT,
    { setting: 'enableAnthropicApi', about: 'Serves the Anthropic Messages API, too' },
    { setting: 'tlsCertPath', value: 'FILE', about: 'Certificate for HTTPS, with --tls-key-path' },
    { setting: 'tlsKeyPath', value: 'FILE', about: 'Its private key' },
    { setting: 'corsOrigin', value: 'ORIGINS', about: 'Origins of web pages that may call from a browser' },
    { setting: 'migrationLimit', about: 'Most moves of a request to another worker after it loses its own' },
    { setting: 'holdTimeoutSecs', value: 'SECONDS', about: 'Time to wait for a worker before a 503' },
    { setting: 'interactive', about: 'Chats in this terminal instead of serving' },
    DUMP,
  ],
};

const WORKER: Brief = {
  examples: {
    'stator worker --engine mocker --discovery-backend file':
      'imitates a GPU for a frontend on this machine; --model-path MODEL sets the tokenizer',
    'stator worker --engine vllm --model Qwen/Qwen3-0.6B --discovery-backend file': 'starts vLLM and serves it',
    'stator worker --engine openai --engine-url http://127.0.0.1:8001 --discovery-backend file':
      'serves the model of a running server',
  },
  flags: [
    { setting: 'engine', value: 'ENGINE', about: 'mocker, openai, vllm or sglang (required)' },
    { setting: 'engineUrl', value: 'URL', about: 'Running server to use, instead of starting one' },
    {
      setting: 'model',
      value: 'MODEL',
      about: 'Id or folder to start the engine with, or its name at a running server',
    },
    { ...MODEL_PATH, about: 'Folder, or id on the Hugging Face Hub: tokenizer, configuration, chat template' },
    { setting: 'servedModelName', value: 'NAME', about: 'Name of the model for clients' },
    DISCOVERY,
    NAMESPACE,
    {
      setting: 'disaggregationMode',
      value: 'ROLE',
      about: 'prefill: only prompts; decode: only answers; encode: only media; agg: everything',
    },
    {
      setting: 'toolCallParser',
      value: 'PARSER',
      about: 'Format of tool calls that the model writes; --help all lists the formats',
    },
    { setting: 'reasoningParser', value: 'PARSER', about: 'Format of reasoning that the model writes' },
    {
      setting: 'engineRequestLimit',
      about: 'Most concurrent requests; the worker refuses more, and they go to another one',
    },
    DUMP,
    {
      setting: 'engineArguments',
      about:
        'Arguments for the engine. With --engine vllm or sglang, the engine also gets flags that --help all does not list',
    },
  ],
};

const ROUTER: Brief = {
  examples: {
    'stator router --endpoint dynamo.backend.generate --router-block-size 64 --discovery-backend file':
      'chooses workers for every process that asks on the request plane',
    'stator router --service indexer': 'answers over HTTP how much of a prompt each worker has cached',
    "stator router explain --prompt 'Once upon a time' --url http://127.0.0.1:8000":
      'explains where a frontend would send this prompt now; no worker receives it',
  },
  flags: [
    { setting: 'service', value: 'SERVICE', about: 'router (default), or over HTTP: indexer, slots or selection' },
    { setting: 'routerEndpoint', value: 'NAME', about: 'Workers to choose from: NAMESPACE.COMPONENT.ENDPOINT' },
    { setting: 'routerBlockSize', about: "Tokens of a block in the workers' caches" },
    { setting: 'servicePort', about: 'Port of an HTTP service (default: 8090 indexer, 8091 slots, 8092 selection)' },
    { setting: 'servicePeers', value: 'URLS', about: 'Replicas that exchange their state with this one' },
    DISCOVERY,
    { setting: 'loadAware', about: 'Chooses only by load, without knowledge of the caches' },
    {
      setting: 'routerKvEvents',
      about: 'Learns the caches from events of the workers; --no-router-kv-events predicts them',
    },
    { setting: 'routerKvOverlapScoreCredit', about: 'Weight of cached blocks against load' },
    { setting: 'routerTemperature', about: 'Randomness of the choice: 0 always takes the best worker' },
    { setting: 'routerQueueThreshold', about: 'Holds requests back above this share of prefill capacity' },
    DUMP,
  ],
};

const SIMULATE: Brief = {
  examples: {
    'stator simulate --workload sessions --request-rate 2 --router-mode kv':
      'simulates conversations on four workers, and prints waiting times, hit rate and GPU hours',
    'stator simulate --workload poisson --sweep workers=4,8 --sweep router-mode=round-robin,kv': 'compares four fleets',
    'stator simulate --trace requests.jsonl --workers 8 --report fleet.html':
      'replays recorded traffic and writes a page with charts',
  },
  flags: [
    { setting: 'trace', value: 'FILE', about: 'Recorded requests, in the JSONL of the Mooncake traces' },
    {
      setting: 'workload',
      value: 'KIND',
      about: 'Synthetic requests in place of a trace: steady, poisson, bursts or sessions',
    },
    { setting: 'requestCount', about: 'Number of synthetic requests' },
    { setting: 'requestRate', about: 'Synthetic requests per second' },
    { setting: 'inputTokens', about: 'Tokens in a prompt' },
    { setting: 'outputTokens', about: 'Tokens in an answer' },
    { setting: 'workers', about: 'Number of workers' },
    {
      setting: 'mode',
      flag: '--router-mode',
      value: 'MODE',
      about: 'round-robin, random, power-of-two, least-loaded, load-aware or kv',
    },
    { setting: 'numGpuBlocks', about: 'Number of blocks in the cache of a worker' },
    {
      setting: 'sweep',
      value: 'FLAG=A,B',
      about: 'Compares runs for several values of a flag; may be repeated for further flags',
    },
    { setting: 'report', value: 'FILE', about: 'Writes a page with charts (.html) or the figures (.json)' },
    { setting: 'json', about: 'Prints one JSON object' },
    { setting: 'seed', about: 'Seed of the random numbers; the same seed gives the same figures' },
  ],
};

const PLANNER: Brief = {
  examples: {
    'stator planner': 'publishes targets for your own system, and waits until it acknowledges them',
    'stator planner --planner-connector local -- --engine mocker':
      'starts and ends workers on this machine, each a stator worker --engine mocker',
    'stator planner explain': 'explains every decision of the last week',
    'stator planner report --output fleet.html': 'writes a page of what happened in the last six hours',
  },
  flags: [
    {
      setting: 'plannerConfig',
      value: 'FILE|JSON',
      about: 'Targets, bounds and law, with the keys of docs/planner.md',
    },
    { setting: 'plannerLaw', value: 'LAW', about: 'rate (default), or one of Dynamo: throughput, latency, load, sla' },
    {
      setting: 'plannerConnector',
      value: 'WHO',
      about: 'What carries decisions out: virtual (your own system), local (workers here), ec2, kubernetes or eks',
    },
    { setting: 'plannerFleets', value: 'FILE|JSON', about: 'With ec2, kubernetes and eks: the options of each fleet' },
    { setting: 'plannerDir', value: 'FOLDER', about: 'Folder for decisions and targets' },
    { setting: 'plannerModel', value: 'NAME', about: 'Model to plan for (default: the first that reports)' },
    { setting: 'prometheusEndpoint', value: 'URL', about: 'Prometheus to read the traffic from' },
    DISCOVERY,
    NAMESPACE,
    DUMP,
  ],
};

const HOST: Brief = {
  examples: {
    'stator host': 'runs the workers of an EC2 instance, with the settings of /etc/stator/host.env',
    'stator host --host-runner process --host-gpus 8 --host-gpus-per-replica 2 --host-worker-arguments \'["--engine=vllm"]\'':
      'four workers of two GPUs each, on a machine of your own',
    'stator host --host-group chat-0-on-demand --host-launch-hook launch --host-terminate-hook terminate':
      'takes part in the lifecycle of an Auto Scaling group',
  },
  flags: [
    { setting: 'hostGroup', value: 'GROUP', about: 'Auto Scaling group of this instance' },
    { setting: 'hostLaunchHook', value: 'HOOK', about: 'Hook that holds a new instance until its workers serve' },
    { setting: 'hostTerminateHook', value: 'HOOK', about: 'Hook that holds an ending instance until it has drained' },
    { setting: 'hostRunner', value: 'HOW', about: 'docker (default with an image) or process' },
    { setting: 'hostWorkerImage', value: 'IMAGE', about: 'Image of the containers' },
    { setting: 'hostWorkerArguments', value: 'JSON', about: 'Arguments of each stator worker, as a JSON list' },
    { setting: 'hostGpus', about: 'GPUs of this machine (default: as many as nvidia-smi lists)' },
    { setting: 'hostGpusPerReplica', about: 'GPUs of one worker' },
    { setting: 'hostWeightsUri', value: 'URI', about: 'Weights of the model, s3://bucket/prefix/' },
    { setting: 'hostWeightsMode', value: 'MODE', about: 'stream (the engine reads the bucket) or disk' },
    { setting: 'hostStartSecs', about: 'Expected time of a start; twice that time is a failure' },
    { setting: 'hostDrainSecs', about: 'Longest drain' },
    { setting: 'hostDir', value: 'FOLDER', about: 'Folder for weights, caches and logs' },
    DUMP,
  ],
};

/** Brief help of every command. */
const BRIEFS: Readonly<Record<Command, Brief>> = {
  local: LOCAL,
  frontend: FRONTEND,
  worker: WORKER,
  router: ROUTER,
  planner: PLANNER,
  host: HOST,
  simulate: SIMULATE,
};
