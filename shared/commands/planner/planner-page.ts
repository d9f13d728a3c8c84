import { type DecisionRecord, outcomeLines, type PlannerConfig } from '../../planner/index.ts';
import { escapeMarkup, type Line, lineChart, renderPage } from '../../simulate/index.ts';
import type { HistoryPoint } from './history.ts';

export interface PlannerPage {
  /** Name of the model's decisions; undefined before any model was heard of. */
  readonly group: string | undefined;
  readonly config: PlannerConfig;
  readonly points: readonly HistoryPoint[];
  /** Decisions, newest first. */
  readonly decisions: readonly DecisionRecord[];
}

const DECISIONS_MAX = 50;

/** Renders what a planner saw and decided as a report: one self-contained page. */
export function renderPlannerPage({ group, config, points, decisions }: PlannerPage): string {
  const last = points.at(-1);
  const title = `Stator planner${group === undefined ? '' : `: ${group}`}`;
  if (last === undefined) {
    const why =
      group === undefined ? 'no worker or frontend of this fleet has been heard' : 'a first tick is under way';
    return renderPage({ title, body: `<p class="verdict">No tick yet: ${why}.</p>` });
  }
  const { gpu_hours: hours = 0 } = last.figures;
  const facts = [
    `law ${config.law}`,
    `targets ${config.ttftMs} ms to the first token, ${config.itlMs} ms between tokens`,
    `${hours.toFixed(2)} GPU h`,
    ...(config.advisory ? ['advice only: no decision is carried out'] : []),
  ];
  const body = `<p class="verdict">${escapeMarkup(last.reason)}</p>
<p>${escapeMarkup(`${stamp(last.atMs)} · ${facts.join(' · ')}`)}</p>
<div class="charts">${chartsOf(points, config)
    .map((chart) => `<figure>${chart}</figure>`)
    .join('\n')}</div>
${decisionTable(decisions.slice(0, DECISIONS_MAX))}`;
  return renderPage({ title, body });
}

function chartsOf(points: readonly HistoryPoint[], config: PlannerConfig): readonly string[] {
  const fromMs = points[0]?.atMs ?? 0;
  const line = (label: string, name: string): Line => ({
    label,
    points: points.map(({ atMs, figures }) => [(atMs - fromMs) / 60_000, figures[name] ?? null] as const),
  });
  const level = (label: string, value: number): Line => ({
    label,
    points: points.map(({ atMs }) => [(atMs - fromMs) / 60_000, value] as const),
  });
  const chart = (title: string, yLabel: string, lines: readonly Line[]): readonly string[] => {
    const known = lines.filter(({ points: of }) => of.some(([, y]) => y !== null));
    if (known.length === 0) return [];
    return [lineChart(known, { title, xLabel: `min since ${stamp(fromMs)}`, yLabel, hasLegend: true })];
  };
  const pools = (['prefill', 'decode'] as const).filter(
    (pool) => config.mode === 'disagg' || (pool === 'prefill') === (config.mode === 'prefill'),
  );
  // One pool has no name of its own.
  const titleOf = (subject: string, pool: string): string => (config.mode === 'agg' ? subject : `${subject}: ${pool}`);
  return [
    ...pools.flatMap((pool) =>
      chart(titleOf('Workers', pool), 'workers', [
        line('serving', `num_${pool}_replicas`),
        line('decided', `scale_to_${pool}`),
        line('starting', `starting_${pool}_replicas`),
      ]),
    ),
    ...chart('Demand', 'requests/s', [
      line('begin', 'observed_requests_per_second'),
      line('expected', 'predicted_requests_per_second'),
    ]),
    ...pools.flatMap((pool) =>
      chart(titleOf('Capacity of one worker', pool), 'requests/s', [line('capacity', `engine_rps_${pool}`)]),
    ),
    ...chart('Requests', 'requests', [line('running', 'running_requests'), line('held', 'held_requests')]),
    ...chart('Time to the first token', 'ms', [
      line('seen', 'observed_ttft_ms'),
      line('estimated', 'estimated_ttft_ms'),
      level('target', config.ttftMs),
    ]),
    ...chart('Time between tokens', 'ms', [
      line('seen', 'observed_itl_ms'),
      line('estimated', 'estimated_itl_ms'),
      level('target', config.itlMs),
    ]),
    ...chart('Lengths', 'tokens', [
      line('prompts', 'observed_input_sequence_tokens'),
      line('answers', 'observed_output_sequence_tokens'),
    ]),
    ...chart('GPU hours', 'hours', [line('hours', 'gpu_hours')]),
  ];
}

function decisionTable(decisions: readonly DecisionRecord[]): string {
  if (decisions.length === 0) return '';
  const rows = decisions.map((decision) => {
    const { decisionId, decidedAtMs, status, reason, problem } = decision;
    const why = problem === undefined ? reason : `${reason} (${problem})`;
    const outcome = outcomeLines(decision).join('; ');
    const cells = [`#${decisionId}`, stamp(decidedAtMs), status.toLowerCase().replaceAll('_', ' '), why, outcome];
    return `<tr>${cells.map((cell) => `<td style="text-align:left">${escapeMarkup(cell)}</td>`).join('')}</tr>`;
  });
  return `<h2>Decisions</h2><div class="wide"><table><tbody>${rows.join('')}</tbody></table></div>`;
}

function stamp(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ').concat(' UTC');
}
