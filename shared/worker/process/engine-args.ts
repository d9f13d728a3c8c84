import { readFile } from 'node:fs/promises';
import { ConfigError, type ResolvedConfig, resolveConfig, TABLE } from '../../config/index.ts';
import { nearestName, reasonOf } from '../../errors/index.ts';

type Mocking = 'worker' | 'simulate';

type Kind = 'number' | 'boolean' | 'string' | 'object';

interface Key {
  /** Flag with the same meaning. */
  readonly flag: string;
  readonly kind: Kind;
  /** Whether the value may be null, which means that it is not set. */
  readonly mayBeNull?: true;
}

/** Keys of `--extra-engine-args`, each with its flag. */
const KEYS: Readonly<Record<string, Key>> = {
  engine_type: { flag: '--engine-type', kind: 'string' },
  num_gpu_blocks: { flag: '--num-gpu-blocks-override', kind: 'number' },
  block_size: { flag: '--block-size', kind: 'number' },
  max_model_len: { flag: '--max-model-len', kind: 'number', mayBeNull: true },
  max_num_seqs: { flag: '--max-num-seqs', kind: 'number' },
  max_num_batched_tokens: { flag: '--max-num-batched-tokens', kind: 'number' },
  enable_prefix_caching: { flag: '--enable-prefix-caching', kind: 'boolean' },
  enable_chunked_prefill: { flag: '--enable-chunked-prefill', kind: 'boolean' },
  watermark: { flag: '--watermark', kind: 'number' },
  speedup_ratio: { flag: '--speedup-ratio', kind: 'number' },
  decode_speedup_ratio: { flag: '--decode-speedup-ratio', kind: 'number' },
  dp_size: { flag: '--data-parallel-size', kind: 'number' },
  startup_time: { flag: '--startup-time', kind: 'number', mayBeNull: true },
  worker_type: { flag: '--disaggregation-mode', kind: 'string' },
  planner_profile_data: { flag: '--planner-profile-data', kind: 'string', mayBeNull: true },
  bootstrap_port: { flag: '--bootstrap-ports', kind: 'number', mayBeNull: true },
  handoff_session_timeout_ms: { flag: '--handoff-session-timeout-ms', kind: 'number' },
  kv_transfer_bandwidth: { flag: '--kv-transfer-bandwidth', kind: 'number' },
  kv_bytes_per_token: { flag: '--kv-bytes-per-token', kind: 'number', mayBeNull: true },
  kv_transfer_timing_mode: { flag: '--kv-transfer-timing-mode', kind: 'string' },
  zmq_kv_events_port: { flag: '--zmq-kv-events-ports', kind: 'number', mayBeNull: true },
  zmq_replay_port: { flag: '--zmq-replay-ports', kind: 'number', mayBeNull: true },
  reasoning: { flag: '--reasoning', kind: 'object', mayBeNull: true },
  preemption_mode: { flag: '--preemption-mode', kind: 'string' },
  enable_local_indexer: { flag: '--enable-local-indexer', kind: 'boolean' },
};

const WORKER_TYPES: Readonly<Record<string, string>> = { aggregated: 'agg', prefill: 'prefill', decode: 'decode' };
/** Pattern of keys for the external timing model and the lower cache tiers, which are not built. */
const NOT_BUILT = /^(aic|ais)_|(^|_)g[234]_/;

/** Settings after the keys of a mocker file were applied. */
export interface EngineArgs<P extends Mocking> {
  readonly settings: ResolvedConfig<P>['settings'];
  /** Lines for each flag that gives way, and for each key without effect. */
  readonly warnings: readonly string[];
}

/** Reads a file of mocker keys. @throws ConfigError that names `flag` and the file */
export async function readEngineArgs(flag: string, path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (thrown) {
    throw new ConfigError([`${flag} ${path} cannot be read: ${reasonOf(thrown)}`]);
  }
}

/**
 * Replaces flags by the mocker keys with the same meaning.
 * @param source origin of the keys, for messages
 * @throws ConfigError with a line for each unknown key and each invalid value
 */
export function applyEngineArgs<P extends Mocking>(
  { process, settings, given }: ResolvedConfig<P>,
  args: unknown,
  source: string,
): EngineArgs<P> {
  const { argv, unset, problems, warnings } = readKeys(process, args);
  if (problems.length > 0) throw new ConfigError(problems.map((problem) => `${source}: ${problem}`));
  const said = resolveAlone(process, argv, source);
  const values: Record<string, unknown> = { ...settings };
  for (const setting of said.given.keys()) {
    if (setting === 'engine') continue;
    values[setting] = said.settings[setting as keyof typeof said.settings];
    const flag = given.get(setting)?.name;
    if (flag !== undefined) warnings.push(`overrides ${flag}`);
  }
  for (const [setting, row] of TABLE) if (row.flags.some((flag) => unset.includes(flag))) values[setting] = undefined;
  const isSizeLeft = !said.given.has('blockSize') && !given.has('blockSize');
  if (said.given.has('engineType') && isSizeLeft) values.blockSize = said.settings.blockSize;
  // Every value was parsed by the row of its setting.
  return { settings: values as typeof settings, warnings: warnings.map((warning) => `${source} ${warning}`) };
}

/** Resolves only the keys, with the checks of the flags. */
function resolveAlone(process: Mocking, argv: readonly string[], source: string) {
  const engine = process === 'worker' ? ['--engine=mocker'] : []; // other engines need more settings
  try {
    return resolveConfig(process, [...engine, ...argv], {}, { allowMissing: true });
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    throw new ConfigError(thrown.problems.map((problem) => `${source}: ${problem}`));
  }
}

function readKeys(process: Mocking, args: unknown) {
  const argv: string[] = [];
  const unset: string[] = [];
  const problems: string[] = [];
  const warnings: string[] = [];
  if (typeof args !== 'object' || args === null || Array.isArray(args)) problems.push('expected a JSON object');
  else {
    for (const [name, value] of Object.entries(args)) {
      const key = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined;
      if (key === undefined && NOT_BUILT.test(name)) warnings.push(`sets ${name}, which is not built yet: no effect`);
      else if (key === undefined) problems.push(unknownKey(name));
      else if (value === null && key.mayBeNull === true) unset.push(key.flag);
      else if (typeof value !== key.kind || value === null) {
        problems.push(`${name} must be ${withArticle(key.kind)}, got ${JSON.stringify(value)}`);
      } else if (!isReadBy(process, key.flag)) {
        if (name !== 'worker_type') warnings.push(`sets ${name}, which has no effect in a simulation`);
      } else argv.push(`${key.flag}=${spell(name, value)}`);
    }
  }
  return { argv, unset, problems, warnings };
}

function unknownKey(name: string): string {
  const nearest = nearestName(name, Object.keys(KEYS));
  const hint = nearest === undefined ? `known are ${Object.keys(KEYS).join(', ')}` : `did you mean ${nearest}?`;
  return `unknown key ${JSON.stringify(name)}; ${hint}`;
}

function withArticle(kind: Kind): string {
  return kind === 'object' ? 'an object' : `a ${kind}`;
}

function isReadBy(process: Mocking, flag: string): boolean {
  return [...TABLE.values()].some((row) => row.flags.includes(flag) && row.usedBy.includes(process));
}

function spell(name: string, value: unknown): string {
  if (typeof value === 'object') return JSON.stringify(value);
  return name === 'worker_type' ? (WORKER_TYPES[String(value)] ?? String(value)) : String(value);
}
