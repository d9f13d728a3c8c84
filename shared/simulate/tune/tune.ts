import type { KvRouterConfig } from '../../scheduler/index.ts';
import { FIGURES, type Figure } from '../report/figures.ts';
import { type SimulationOptions, simulate } from '../simulate.ts';
import { summarize } from '../summary.ts';
import { configAt, DEFAULT_POINT, DYNAMO_AXES, DYNAMO_GRID, flagsAt } from './dynamo-settings.ts';
import { rankBy, searchPoints } from './search.ts';

const FIGURE_NAMES = Object.keys(FIGURES) as readonly Figure[];
/** Seeds of the search; all seeds judge only its best settings. */
const SEARCH_SEEDS = 2;
/** Best settings of the search for each figure that all seeds judge. */
const FINALISTS = 3;

/** Figures of a router, as means over seeds: milliseconds, and the hit rate as a share of 1. */
export type Measured = Readonly<Record<Figure | 'hitRate', number>>;

export interface TuneOptions {
  /** The same simulation with each seed, in mode `kv`. */
  readonly simulations: readonly SimulationOptions[];
  /** Most settings that are tried. */
  readonly settingsMax: number;
  /** Hears of each setting before it is tried, from 1. */
  readonly tell?: ((setting: number) => void) | undefined;
}

/** The best setting of Dynamo's formula for one figure. */
interface BestSetting {
  /** The figure, in milliseconds. */
  readonly value: number;
  /** Flags that differ from the defaults, without dashes. */
  readonly setting: Readonly<Record<string, string>>;
}

/** Dynamo's formula, tuned for each figure by itself. */
export interface TunedDynamo {
  /** Settings that were tried. */
  readonly tried: number;
  readonly best: Readonly<Record<Figure, BestSetting>>;
  /** Figures with the default weights. */
  readonly defaults: Measured;
}

/**
 * Searches the settings of Dynamo's formula for one workload and fleet. The first two seeds look for settings, and all
 * seeds judge the best three of each figure.
 */
export async function tuneDynamo({ simulations, settingsMax, tell }: TuneOptions): Promise<TunedDynamo> {
  const trials = new Trials(simulations);
  const evaluated = await searchPoints({
    axes: DYNAMO_AXES,
    figures: FIGURE_NAMES,
    grid: DYNAMO_GRID,
    pointsMax: settingsMax,
    evaluate: async (point) => {
      tell?.(trials.settings + 1);
      await nextTurn();
      return trials.measure(configAt(point), SEARCH_SEEDS);
    },
  });
  const tried = trials.settings;
  const bestOf = (figure: Figure): BestSetting => {
    const finalists = rankBy(evaluated, figure).slice(0, FINALISTS);
    const judged = finalists.map(({ point }) => ({ point, costs: trials.measure(configAt(point)) }));
    const { point, costs } = rankBy(judged, figure)[0]!; // the grid is never empty
    return { value: costs[figure], setting: flagsAt(point) };
  };
  return {
    tried,
    best: { ttftMean: bestOf('ttftMean'), ttftP99: bestOf('ttftP99'), e2eMean: bestOf('e2eMean') },
    defaults: trials.measure(configAt(DEFAULT_POINT)),
  };
}

/** Returns the figures of the cost model `stator`. */
export function measureStator(simulations: readonly SimulationOptions[]): Measured {
  return new Trials(simulations).measure({ costModel: 'stator' });
}

/** Simulations that have run, so that none runs twice. */
class Trials {
  readonly #simulations: readonly SimulationOptions[];
  /** Figures of each seed by setting; bounded by the settings that are tried. */
  readonly #measured = new Map<string, Measured[]>();

  constructor(simulations: readonly SimulationOptions[]) {
    this.#simulations = simulations;
  }

  /** Settings that have run. */
  get settings(): number {
    return this.#measured.size;
  }

  /** Returns the means of the first `seeds` seeds. @param seeds all by default */
  measure(kv: Partial<KvRouterConfig>, seeds = this.#simulations.length): Measured {
    const name = JSON.stringify(kv);
    const measured = this.#measured.get(name) ?? [];
    this.#measured.set(name, measured);
    const wanted = this.#simulations.slice(0, seeds);
    for (const options of wanted.slice(measured.length)) measured.push(measureSeed(options, kv));
    const mean = (figure: keyof Measured): number =>
      wanted.reduce((sum, _, seed) => sum + measured[seed]![figure], 0) / wanted.length;
    return {
      ttftMean: mean('ttftMean'),
      ttftP99: mean('ttftP99'),
      e2eMean: mean('e2eMean'),
      hitRate: mean('hitRate'),
    };
  }
}

function measureSeed(options: SimulationOptions, given: Partial<KvRouterConfig>): Measured {
  const { routing } = options;
  const summary = summarize(simulate({ ...options, routing: { ...routing, kv: { ...routing.kv, ...given } } }));
  const { ttftMean, ttftP99, e2eMean } = FIGURES;
  return {
    ttftMean: ttftMean(summary),
    ttftP99: ttftP99(summary),
    e2eMean: e2eMean(summary),
    hitRate: summary.hitRate,
  };
}

/** Lets other work of the process run between two simulations. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
