import { type FleetSample, WORKER_PHASES, type WorkerPhase } from '../../../planner/index.ts';
import { colourOf } from '../svg.ts';
import { legendOf, type TimeChart, type TimeMark, type TimeSeries, timeChart } from '../time-chart.ts';
import { type Bins, binsOf } from './bins.ts';
import { eventsOf, type FleetStory, meanMs, optionsOf, percentMet } from './fleet-story.ts';

/** Options that a chart draws one by one; the rest are one layer. */
const LAYERS_MAX = 8;

/** Colours of the phases: those of a start go from grey to orange. */
const PHASE_COLOURS: Readonly<Record<WorkerPhase, string>> = {
  capacity: '#98a2b3',
  starting: '#e0a51f',
  boot: '#c9b458',
  image: '#e0a51f',
  weights: '#e07a1f',
  engine: '#d4573a',
  compile: '#b5419b',
  register: '#6b5fd3',
  serving: '#1f9d76',
  draining: '#4aa3c7',
};

const DASHES = [undefined, '7 3', '2 3', '9 3 2 3'] as const;

/** Draws what happened in a fleet over time, a figure for each subject. */
export function fleetCharts(story: FleetStory): readonly string[] {
  const bins = binsOf(story.samples, story.fromMs, story.untilMs);
  const figures = new Figures(bins, marksOf(story));
  const lengths = (sample: FleetSample, tokens: number): number | null =>
    sample.knownSeconds > 0 ? tokens / sample.knownSeconds : null;
  return [
    figures.lines('Demand', 'requests/s', 'Requests that began, by second.', [
      ['requests', (sample) => (sample.knownSeconds > 0 ? sample.started / sample.knownSeconds : null)],
    ]),
    figures.lines('Tokens', 'tokens/s', 'Tokens of prompts and of answers, by second.', [
      ['prompts', (sample) => lengths(sample, sample.inputTokens)],
      ['answers', (sample) => lengths(sample, sample.outputTokens)],
    ]),
    figures.lines('Requests at once', 'requests', 'Requests that ran, and the most that were held without a worker.', [
      ['running', ({ runningSeconds, seconds }) => runningSeconds / seconds],
      ['held, at most', ({ heldMax }) => heldMax],
    ]),
    ...figures.workers(story),
    figures.lines('Time to the first token', 'ms', 'Mean of the requests, and the target.', [
      ['mean', ({ ttft }) => meanMs(ttft) ?? null],
      ['target', ({ ttft }) => ttft.targetMs],
    ]),
    figures.lines('Time between tokens', 'ms', 'Mean of the gaps, and the target.', [
      ['mean', ({ itl }) => meanMs(itl) ?? null],
      ['target', ({ itl }) => itl.targetMs],
    ]),
    figures.lines(
      'Targets met',
      '%',
      'Share of requests, and of gaps between tokens, whose mean in a tick met the target.',
      [
        ['first token', ({ ttft }) => percentMet(ttft) ?? null],
        ['between tokens', ({ itl }) => percentMet(itl) ?? null],
      ],
      100,
    ),
  ];
}

class Figures {
  readonly #bins: Bins;
  readonly #marks: readonly TimeMark[];

  constructor(bins: Bins, marks: readonly TimeMark[]) {
    this.#bins = bins;
    this.#marks = marks;
  }

  lines(
    title: string,
    yLabel: string,
    about: string,
    lines: readonly (readonly [label: string, of: (sample: FleetSample) => number | null])[],
    yMax?: number,
  ): string {
    const series = lines.map(([label, of], at) => this.#series(label, colourOf(at), of, DASHES[at]));
    return this.#figure({ title, yLabel, about, yMax }, series, false);
  }

  /** Draws decided and serving workers, workers by option and by phase, and GPUs. */
  workers({ samples }: FleetStory): readonly string[] {
    const keys = optionsOf(samples);
    const decided = ({ targets }: FleetSample): number =>
      Object.values(targets).reduce((total, each) => total + (each ?? 0), 0);
    const layers = (of: (sample: FleetSample, key: string) => number): readonly TimeSeries[] => {
      const own = keys.length > LAYERS_MAX ? keys.slice(0, LAYERS_MAX - 1) : keys;
      const rest = keys.slice(own.length);
      const single = own.map((key, at) => this.#series(key, colourOf(at), (sample) => of(sample, key)));
      if (rest.length === 0) return single;
      const sum = (sample: FleetSample): number => rest.reduce((total, key) => total + of(sample, key), 0);
      return [...single, this.#series('others', colourOf(LAYERS_MAX - 1), sum)];
    };
    const phases = WORKER_PHASES.toReversed().filter((phase) =>
      samples.some(({ sample }) => workersIn(sample, phase) > 0),
    );
    return [
      this.lines('Workers', 'workers', 'Workers that were decided, and those that served.', [
        ['decided', decided],
        ['serving', (sample) => workersIn(sample, 'serving') / sample.seconds],
      ]),
      this.#figure(
        {
          title: 'Workers by phase',
          yLabel: 'workers',
          about: 'Workers from the order of a machine to its end, on top of each other.',
        },
        phases.map((phase) =>
          this.#series(phase, PHASE_COLOURS[phase], (sample) => workersIn(sample, phase) / sample.seconds),
        ),
        true,
      ),
      this.#figure(
        {
          title: 'Workers by option',
          yLabel: 'workers',
          about: 'Workers whose machines exist, by capacity option, on top of each other.',
        },
        layers((sample, key) => existing(sample, key) / sample.seconds),
        true,
      ),
      this.#figure(
        { title: 'GPUs', yLabel: 'GPUs', about: 'GPUs of machines that exist, by capacity option.' },
        layers(({ options, seconds }, key) => (options[key]?.gpuSeconds ?? 0) / seconds),
        true,
      ),
    ];
  }

  #series(
    label: string,
    colour: string,
    of: (sample: FleetSample) => number | null,
    dash?: string | undefined,
  ): TimeSeries {
    const values = this.#bins.samples.map((sample) => (sample === undefined ? null : of(sample)));
    return { label, colour, dash, values };
  }

  #figure(
    head: Pick<TimeChart, 'title' | 'yLabel' | 'about' | 'yMax'>,
    series: readonly TimeSeries[],
    isStacked: boolean,
  ): string {
    const { fromMs, binMs } = this.#bins;
    const drawn = timeChart({ ...head, fromMs, binMs, series, isStacked, marks: this.#marks });
    return `<figure>${drawn}${legendOf(isStacked ? series.toReversed() : series, isStacked)}</figure>`;
  }
}

function workersIn({ options }: FleetSample, phase: WorkerPhase): number {
  return Object.values(options).reduce((total, { workers }) => total + (workers[phase] ?? 0), 0);
}

function existing({ options }: FleetSample, key: string): number {
  const { capacity: _, ...there } = options[key]?.workers ?? {};
  return Object.values(there).reduce((total, each) => total + each, 0);
}

function marksOf(story: FleetStory): readonly TimeMark[] {
  const decided = story.decisions.map(({ decidedAtMs: atMs, decisionId, reason }) => {
    return { atMs, label: `#${decisionId} ${reason}`, isTrouble: false };
  });
  const happened = eventsOf(story).events.map(({ atMs, kind, instance, about }) => {
    return { atMs, label: [kind, instance, about].filter((part) => part !== undefined).join(' '), isTrouble: true };
  });
  return [...happened, ...decided];
}
