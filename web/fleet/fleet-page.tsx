import type { ConsoleFigures } from '../../shared/console/wire/fleet.ts';
import { duration, percent, short, whole } from '../format.ts';
import type { PageProps } from '../main.tsx';
import { Charts } from './charts.tsx';
import { ColdStarts } from './cold-starts.tsx';
import { Cost } from './cost.tsx';
import { Frontends } from './frontends.tsx';
import { ModelTable } from './model-table.tsx';
import { type Fleet, useFleet } from './use-fleet.ts';
import { Workers } from './workers.tsx';

/** Page of the models and workers, live, and of the last hour. */
export function FleetPage({ place, onLink }: PageProps) {
  const model = place.query.get('model') ?? undefined;
  const fleet = useFleet(model, onLink);
  if (fleet === undefined) return <p class="muted">Waiting for the fleet …</p>;
  const shown = model === undefined ? undefined : fleet.models.get(model);
  const isTable = place.query.get('as') === 'table';
  return (
    <>
      <h1 class="unseen">Fleet</h1>
      <Figures figures={shown?.figures ?? fleet.totals} fleet={fleet} of={shown?.figures ? model : undefined} />
      <ColdStarts fleet={fleet} model={model} />
      <section aria-labelledby="models">
        <h2 id="models">Models</h2>
        <ModelTable fleet={fleet} chosen={model} form={isTable ? 'table' : undefined} />
      </section>
      <section aria-labelledby="hour">
        <h2 id="hour">Last hour, {fleet.hour.model ?? 'all models'}</h2>
        <Charts hour={fleet.hour} />
      </section>
      <section aria-labelledby="workers">
        <h2 id="workers">Workers</h2>
        <Cost fleet={fleet} />
        <Workers fleet={fleet} model={model} isTable={isTable} />
      </section>
      <section aria-labelledby="frontends">
        <h2 id="frontends">Frontends</h2>
        <Frontends fleet={fleet} />
      </section>
    </>
  );
}

interface FiguresProps {
  readonly figures: ConsoleFigures;
  readonly fleet: Fleet;
  /** Model of the figures; undefined = all. */
  readonly of: string | undefined;
}

function Figures({ figures, fleet, of }: FiguresProps) {
  const { ttft_ms: ttft, itl_ms: itl } = figures;
  const workers = [...fleet.workers.values()].filter(({ model }) => of === undefined || model === of);
  const ready = workers.filter(({ state }) => state === 'ready').length;
  return (
    <dl class="figures" aria-label={`Last minute, ${of ?? 'all models'}`}>
      <Figure name="Workers ready" value={`${ready}`} more={`of ${workers.length}`} />
      <Figure name="Running" value={whole(figures.running)} more="requests" />
      <Figure name="Requests" value={short(figures.requests_per_second)} more="a second" />
      <Figure name="Output" value={short(figures.tokens_per_second)} more="tokens a second" />
      <Figure name="TTFT" value={duration(ttft?.p50)} more={`p95 ${duration(ttft?.p95)}`} />
      <Figure name="ITL" value={duration(itl?.p50)} more={`p95 ${duration(itl?.p95)}`} />
      <Figure name="Cache hits" value={percent(figures.hit_rate)} more="of prompt tokens" />
      <Figure
        name="Failed"
        value={percent(figures.failed_share)}
        more="of requests"
        isBad={(figures.failed_share ?? 0) > 0}
      />
    </dl>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: string;
  readonly more: string;
  readonly isBad?: boolean;
}

function Figure({ name, value, more, isBad = false }: FigureProps) {
  return (
    <div class={isBad ? 'bad' : undefined}>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b> <span>{more}</span>
      </dd>
    </div>
  );
}
