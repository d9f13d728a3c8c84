import { ConfigError, type Settings } from '../../config/index.ts';
import type { SharedTextOptions } from '../shared-texts.ts';
import type { SyntheticOptions, WorkloadShape } from '../synthetic.ts';

type WorkloadName = NonNullable<Settings<'simulate'>['workload']>;

/** Values of a synthetic workload for flags that are not given. */
interface Preset {
  readonly shape: WorkloadShape;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly lengthSpread: number;
  readonly turnsPerSession: number;
  readonly groups: number;
  /** @default prompts share prefixes of `--shared-prefix-ratio` */
  readonly texts?: Omit<SharedTextOptions, 'count'>;
}

const PLAIN = { inputTokens: 2048, outputTokens: 256, lengthSpread: 0, turnsPerSession: 1, groups: 8 } as const;

/** Presets by the name of the workload. `shared/config/table/simulate.ts` and docs/simulate.md repeat their numbers. */
const PRESETS: Readonly<Record<WorkloadName, Preset>> = {
  steady: { ...PLAIN, shape: 'steady' },
  poisson: { ...PLAIN, shape: 'poisson' },
  bursts: { ...PLAIN, shape: 'bursts' },
  sessions: { ...PLAIN, shape: 'sessions', turnsPerSession: 5 },
  agents: {
    shape: 'poisson',
    inputTokens: 4400,
    outputTokens: 400,
    lengthSpread: 0.5,
    turnsPerSession: 1,
    groups: 32,
    texts: { tokensMin: 40_000, tokensMax: 40_000, skew: 0, perPrompt: 1 },
  },
  tenants: {
    shape: 'poisson',
    inputTokens: 1000,
    outputTokens: 300,
    lengthSpread: 0.5,
    turnsPerSession: 1,
    groups: 64,
    texts: { tokensMin: 2000, tokensMax: 40_000, skew: 1, perPrompt: 1 },
  },
  retrieval: {
    shape: 'poisson',
    inputTokens: 300,
    outputTokens: 250,
    lengthSpread: 0.5,
    turnsPerSession: 1,
    groups: 1000,
    texts: { tokensMin: 1000, tokensMax: 4000, skew: 1, perPrompt: 4 },
  },
  chats: {
    shape: 'bursts',
    inputTokens: 500,
    outputTokens: 300,
    lengthSpread: 0.5,
    turnsPerSession: 3,
    groups: 8,
    texts: { tokensMin: 500, tokensMax: 3000, skew: 0, perPrompt: 1 },
  },
};

/** Names that `--workload` takes. */
export const WORKLOAD_NAMES = Object.keys(PRESETS) as readonly WorkloadName[];

/** Returns the options of a synthetic workload. @throws ConfigError for texts that cannot be drawn */
export function syntheticOptions(name: WorkloadName, settings: Settings<'simulate'>): SyntheticOptions {
  const preset = PRESETS[name];
  const { requestRate, arrivalIntervalMs } = settings;
  return {
    shape: preset.shape,
    sessions: settings.requestCount,
    turnsPerSession: settings.turnsPerSession ?? preset.turnsPerSession,
    interTurnDelayMs: settings.interTurnDelayMs,
    arrivalIntervalMs: requestRate === undefined ? arrivalIntervalMs : 1000 / requestRate,
    burstSize: settings.burstSize,
    inputTokens: settings.inputTokens ?? preset.inputTokens,
    outputTokens: settings.outputTokens ?? preset.outputTokens,
    lengthSpread: settings.lengthSpread ?? preset.lengthSpread,
    sharedPrefixRatio: settings.sharedPrefixRatio,
    prefixGroups: settings.numPrefixGroups ?? preset.groups,
    texts: preset.texts && textsOf(settings, preset.groups, preset.texts),
    segmentTokens: settings.blockSize,
    seed: settings.seed,
    ...(settings.mode === 'direct' && { namedWorkers: settings.workers }),
  };
}

function textsOf(
  settings: Settings<'simulate'>,
  groups: number,
  preset: Omit<SharedTextOptions, 'count'>,
): SharedTextOptions {
  const count = settings.numPrefixGroups ?? groups;
  const tokensMin = settings.prefixTokensMin ?? Math.min(preset.tokensMin, settings.prefixTokensMax ?? Infinity);
  const tokensMax = settings.prefixTokensMax ?? Math.max(preset.tokensMax, tokensMin);
  const isOfDocuments = preset.perPrompt > 1;
  const perPrompt = isOfDocuments ? (settings.documentsPerPrompt ?? preset.perPrompt) : 1;
  if (tokensMin > tokensMax)
    throw new ConfigError([`--prefix-tokens-min ${tokensMin} is more than --prefix-tokens-max ${tokensMax}`]);
  if (perPrompt > count) {
    throw new ConfigError([
      `--documents-per-prompt ${perPrompt} is more than the ${count} documents of --num-prefix-groups`,
    ]);
  }
  return { count, tokensMin, tokensMax, skew: settings.prefixSkew ?? preset.skew, perPrompt };
}
