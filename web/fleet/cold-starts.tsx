import type { ConsoleColdStart } from '../../shared/console/wire/fleet.ts';
import { duration, timeOfDay } from '../format.ts';
import type { Fleet } from './use-fleet.ts';

type Phase = ConsoleColdStart['phases'][number];

/** Words for a phase. */
export const PHASE_WORDS: Readonly<Record<Phase['name'], string>> = {
  wait: 'waiting',
  decide: 'deciding',
  launch: 'launching',
  boot: 'booting',
  image: 'pulling the image',
  weights: 'loading weights',
  engine: 'starting the engine',
  compile: 'compiling and warming up',
  register: 'registering',
};

/** The waits for a first worker, each as a bar of its phases. Nothing if there are none. */
export function ColdStarts({ fleet, model }: { readonly fleet: Fleet; readonly model: string | undefined }) {
  const starts = fleet.cold_starts.filter((start) => model === undefined || start.model === model);
  if (starts.length === 0) return null;
  return (
    <section aria-labelledby="starts">
      <h2 id="starts">Cold starts</h2>
      {starts.map((start) => (
        <ColdStart key={`${start.model} ${start.since_ms}`} start={start} nowMs={fleet.at_ms} />
      ))}
    </section>
  );
}

function ColdStart({ start, nowMs }: { readonly start: ConsoleColdStart; readonly nowMs: number }) {
  const { model, phases, since_ms: sinceMs, note } = start;
  const timed = phases.map((phase) => ({ phase, ms: Math.max(0, (phase.to_ms ?? nowMs) - phase.from_ms) }));
  return (
    <div class="card start">
      <p>
        <b class="name">{model}</b> <span role="status">{wordsOf(start, nowMs)}</span>{' '}
        <span class="muted">since {timeOfDay(sinceMs)}</span>
      </p>
      <div class="phases" aria-hidden="true">
        {timed.map(({ phase: { name }, ms }) => (
          <span key={name} class={`phase ${name}`} style={{ flexGrow: Math.max(1, ms) }} />
        ))}
      </div>
      <ol class="legend" aria-label={`Phases of the start of ${model}`}>
        {timed.map(({ phase: { name, to_ms: toMs }, ms }) => (
          <li key={name} class={`phase-key ${name}`} aria-current={toMs === null ? 'step' : undefined}>
            {PHASE_WORDS[name]} <span class="n">{duration(ms)}</span>
          </li>
        ))}
        {start.ready_ms !== null && (
          <li class="phase-key ready">
            ready after <span class="n">{duration(start.ready_ms - sinceMs)}</span>
          </li>
        )}
      </ol>
      {note !== null && <p class="muted small">{note}</p>}
    </div>
  );
}

function wordsOf(
  { requests, ready_ms: readyMs, ended_ms: endedMs, since_ms: sinceMs }: ConsoleColdStart,
  nowMs: number,
) {
  const some = requests === 1 ? '1 request' : `${requests} requests`;
  if (endedMs === null) return `${some} waiting for ${duration(Math.max(0, nowMs - sinceMs))}`;
  return readyMs === null ? `no worker came: ${some} gave up` : `${some} waited`;
}
