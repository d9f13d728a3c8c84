import type { OptionSummary, ScalingSummary } from '../summary.ts';
import { fitTable, line } from './text-layout.ts';

/** Columns of the options of a fleet on EC2. */
export const OPTION_COLUMNS: readonly { readonly head: string; readonly of: (option: OptionSummary) => string }[] = [
  { head: 'most', of: ({ servingMax }) => `${servingMax}` },
  { head: 'hours', of: ({ instanceHours }) => instanceHours.toFixed(2) },
  { head: 'warm h', of: ({ warmHours }) => warmHours.toFixed(2) },
  { head: 'GPU h', of: ({ gpuHours }) => gpuHours.toFixed(2) },
  { head: 'US$', of: ({ dollars }) => dollars.toFixed(2) },
  { head: 'launches', of: ({ launches }) => `${launches}` },
  { head: 'called off', of: ({ calledOff }) => `${calledOff}` },
  { head: 'failed', of: ({ failedLaunches }) => `${sum(Object.values(failedLaunches))}` },
  { head: 'notices', of: ({ interruptions }) => `${interruptions}` },
  { head: 'moved', of: ({ movedStreams }) => `${movedStreams}` },
  { head: 'start s', of: ({ startSeconds }) => startSeconds.toFixed(0) },
];

/** Returns the name of an option: with its pool if the fleet has two. */
export function optionName({ pool, option }: OptionSummary, options: readonly OptionSummary[]): string {
  return options.some((other) => other.pool !== pool) ? `${pool}/${option}` : option;
}

/** Returns what became of the options of a fleet on EC2, as lines for a terminal; none for other fleets. */
export function optionLines({ options = [], fromZero, phaseShares }: ScalingSummary): readonly string[] {
  if (options.length === 0) return [];
  const rows = options.map((option) => [optionName(option, options), ...OPTION_COLUMNS.map(({ of }) => of(option))]);
  const failed = options.flatMap((option) => {
    const codes = Object.entries(option.failedLaunches).map(([code, count]) => `${count} ${code}`);
    return codes.length === 0 ? [] : [line('failed launches', `${optionName(option, options)}: ${codes.join(', ')}`)];
  });
  const shares = Object.entries(phaseShares ?? {}).filter(([, share]) => share > 0);
  const phases = shares.map(([phase, share]) => `${phase} ${(100 * share).toFixed(0)} %`);
  return [
    ...(fromZero === undefined ? [] : [line('from zero', zeroText(fromZero))]),
    ...(phases.length === 0 ? [] : [line('a start', phases.join(', '))]),
    ...failed,
    '',
    fitTable([['option', ...OPTION_COLUMNS.map(({ head }) => head)], ...rows]),
    '',
  ];
}

function zeroText({ count, meanSeconds, maxSeconds }: NonNullable<ScalingSummary['fromZero']>): string {
  const times = count === 1 ? 'once' : `${count} times, mean`;
  const most = count === 1 ? '' : `, at most ${maxSeconds.toFixed(0)} s`;
  return `${times} ${meanSeconds.toFixed(0)} s until a worker served${most}`;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
