import {
  REASONING_PARSER_SPELLINGS,
  REASONING_PARSERS,
  TOOL_CALL_PARSER_SPELLINGS,
  TOOL_CALL_PARSERS,
  TOOL_CALL_PARSERS_WITHOUT_GRAMMAR,
} from '../parser-names.ts';
import { edges, lastingFleetRouters, listeners, rowsFor, worker, workers } from '../row.ts';

const hosts = rowsFor('frontend', 'worker', 'local');
const fetchers = rowsFor(...edges.usedBy, 'worker');
const buckets = rowsFor(...fetchers.usedBy, 'host');

/** Refuses names whose format is not published: a worker whose output cannot be read must not register. */
function unpublished(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, 'its format is not published']));
}

/** Rows of "Model and tokenizer". */
export const modelRows = {
  modelName: hosts.text({
    names: '--model-name DYN_MODEL_NAME',
    source: 'Dynamo',
    about:
      'Overrides the model name. A worker registers its model under it; a frontend shows only this name for its model, or for the first one of several.',
  }),
  modelPath: hosts.modelPath({
    names: '--model-path DYN_MODEL_PATH',
    defaultText: 'the built-in model in stator local',
    source: 'Dynamo',
    about:
      "Model folder, or a model on the Hugging Face Hub, of which configuration, tokenizer and template are downloaded. A frontend takes them from it if it cannot get the worker's files; it must have a tokenizer.",
  }),
  artifactsCacheDir: edges.folder({
    names: 'STATOR_ARTIFACTS_CACHE_DIR',
    written: true,
    defaultFor: { function: '/tmp/stator' },
    defaultText: 'home/.cache/stator; in a function /tmp/stator',
    about: 'Folder for models fetched from workers or a bucket, and for tables of tokenizers.',
  }),
  artifactsCacheMb: edges.int({
    names: 'STATOR_ARTIFACTS_CACHE_MB',
    range: { min: 16, unit: 'MiB' },
    default: 1024,
    defaultFor: { function: 256 },
    about: 'Size bound of that folder; the files used longest ago leave first.',
  }),
  artifactsBucket: edges.text({
    names: 'STATOR_ARTIFACTS_BUCKET',
    about: 'Bucket with files of models by checksum (filled by stator artifacts push), asked after the workers.',
  }),
  kvCacheBlockSize: lastingFleetRouters.int({
    names: '--kv-cache-block-size DYN_KV_CACHE_BLOCK_SIZE',
    range: { min: 1, unit: 'tokens' },
    defaultText: 'unset = from the model card',
    source: 'Dynamo',
    about: 'Overrides the KV cache block size.',
  }),
  tokenizer: edges.choice({
    names: '--tokenizer DYN_TOKENIZER',
    values: ['default', 'fastokens'],
    refused: { basetenkenizer: 'not built yet' },
    default: 'default',
    source: 'Dynamo',
    about: "Tokenizer back end; the worker card's choice wins.",
  }),
  tokenizerFallback: edges.bool({
    names: '--tokenizer-fallback DYN_TOKENIZER_FALLBACK',
    default: true,
    about: 'Falls back to the reference tokenizer when the chosen one fails.',
  }),
  chatProcessor: edges.choice({
    names: '--dyn-chat-processor DYN_CHAT_PROCESSOR',
    values: ['dynamo', 'vllm', 'sglang'],
    default: 'dynamo',
    source: 'Dynamo',
    about: "Renders chats and reads their answers: this process, or the workers' engine.",
  }),
  debugPerf: listeners.bool({
    names: '--dyn-debug-perf DYN_DEBUG_PERF',
    source: 'Dynamo',
    about: 'Logs how long each step of a request took.',
  }),
  preprocessWorkers: listeners.int({
    names: '--dyn-preprocess-workers DYN_PREPROCESS_WORKERS',
    range: { min: 0 },
    note: '0 = built-in pool only for long prompts',
    default: 0,
    source: 'Dynamo',
    about: 'Workers for CPU-bound preprocessing.',
  }),
  reasoningFieldName: edges.choice({
    names: '--reasoning-field-name DYN_REASONING_FIELD_NAME',
    values: ['reasoning_content', 'reasoning'],
    default: 'reasoning_content',
    about: 'Name of the reasoning field in chat replies.',
  }),
  excludeToolsWhenToolChoiceNone: rowsFor('frontend', 'worker', 'function', 'local').bool({
    names: '--exclude-tools-when-tool-choice-none DYN_EXCLUDE_TOOLS_WHEN_TOOL_CHOICE_NONE',
    default: true,
    about: 'Hides tools from the template for tool_choice none.',
  }),
  customJinjaTemplate: workers.file({
    names: '--custom-jinja-template --chat-template DYN_CUSTOM_JINJA_TEMPLATE',
    allowed: 'an existing Jinja file, $VAR expanded',
    expandsVariables: true,
    source: '1.6.1; second spelling Stator',
    about: "Chat template that replaces the model's.",
  }),
  toolCallParser: workers.choice({
    names: '--dyn-tool-call-parser DYN_TOOL_CALL_PARSER',
    values: TOOL_CALL_PARSERS,
    synonyms: TOOL_CALL_PARSER_SPELLINGS,
    refused: unpublished(TOOL_CALL_PARSERS_WITHOUT_GRAMMAR),
    about: 'Tool-call parser published in the model card.',
  }),
  reasoningParser: workers.choice({
    names: '--dyn-reasoning-parser DYN_REASONING_PARSER',
    values: REASONING_PARSERS,
    synonyms: REASONING_PARSER_SPELLINGS,
    about: 'Reasoning parser published in the model card.',
  }),
  defaultThinkingMode: workers.choice({
    names: '--dyn-default-thinking-mode DYN_DEFAULT_THINKING_MODE',
    values: ['enabled', 'disabled'],
    about: "Template's thinking mode when the request names none.",
  }),
  parserVersion: edges.choice({
    names: 'DYN_PARSER_VERSION',
    values: ['auto', '1', '2'],
    default: 'auto',
    about: 'Generation of tool-call parsers.',
  }),
  contextWindow: edges.int({
    names: 'DYN_CONTEXT_WINDOW',
    range: { unit: 'tokens' },
    note: 'anything else is ignored',
    lenient: true,
    about: 'context_window shown for every model in the list.',
  }),
  maxOutputTokens: edges.int({
    names: 'DYN_MAX_OUTPUT_TOKENS',
    range: { unit: 'tokens' },
    note: 'anything else is ignored',
    lenient: true,
    about: 'max_output_tokens shown for every model in the list.',
  }),
  tokenCacheMb: edges.int({
    names: 'STATOR_TOKEN_CACHE_MB',
    range: { min: 0, unit: 'MiB' },
    note: '0 = off',
    default: 64,
    about: 'Bound of the token-prefix cache.',
  }),
  encodeThreads: listeners.int({
    names: 'STATOR_ENCODE_THREADS',
    range: { min: 0 },
    defaultText: 'CPU cores - 1, at most 4',
    about: 'Threads that encode long prompts off the event loop.',
  }),
};

/** Rows of "LoRA". */
export const loraRows = {
  loraEnabled: worker.bool({
    names: 'DYN_LORA_ENABLED',
    about: 'Opens the LoRA routes of the control server.',
  }),
  loraPath: worker.folder({
    names: 'DYN_LORA_PATH',
    written: true,
    defaultText: 'home/.cache/dynamo_loras',
    about: 'Cache of adapters.',
  }),
  enableLora: worker.boolOrUnset({
    names: '--enable-lora',
    defaultText: "engine's",
    source: 'engine',
    about: 'The engine serves adapters.',
  }),
  maxLoraRank: worker.int({
    names: '--max-lora-rank',
    defaultText: "engine's",
    source: 'engine',
    about: 'Largest rank of an adapter in the engine.',
  }),
  maxLoras: worker.int({
    names: '--max-loras',
    defaultText: "engine's",
    source: 'engine',
    about: 'Adapters in one step of the engine.',
  }),
  vllmAllowRuntimeLoraUpdating: worker.boolOrUnset({
    names: 'VLLM_ALLOW_RUNTIME_LORA_UPDATING',
    defaultText: 'true when LoRA is enabled',
    source: 'engine',
    about: 'Variable of a started engine: it may load adapters while it runs.',
  }),
  awsAccessKeyId: worker.secret({
    names: 'AWS_ACCESS_KEY_ID',
    defaultText: 'standard credential chain',
    about: 'Access key id of the AWS clients.',
  }),
  awsSecretAccessKey: worker.secret({
    names: 'AWS_SECRET_ACCESS_KEY',
    defaultText: 'standard credential chain',
    about: 'Secret access key of the AWS clients.',
  }),
  awsEndpoint: buckets.url({
    names: 'AWS_ENDPOINT',
    defaultText: 'standard credential chain',
    about: 'S3 endpoint of adapters, of STATOR_ARTIFACTS_BUCKET and of STATOR_HOST_WEIGHTS_URI.',
  }),
  awsAllowHttp: buckets.boolOrUnset({
    names: 'AWS_ALLOW_HTTP',
    defaultText: 'standard credential chain',
    about: 'Permits plain HTTP to AWS_ENDPOINT.',
  }),
};
