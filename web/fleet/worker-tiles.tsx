import { short } from '../format.ts';
import { linkTo } from '../route.ts';
import { KvShare } from './kv-share.tsx';
import type { FleetMember } from './members.ts';
import { memo } from './memo.ts';
import { State } from './model-table.tsx';

/** Workers as tiles: with machines that start, and workers that have gone. */
export function WorkerTiles({ members }: { readonly members: readonly FleetMember[] }) {
  return (
    <ul class="tiles" aria-label="Tiles of workers">
      {members.map(({ key, id, model, state, worker, about }) => (
        <Tile key={key} id={id} model={model} state={state} worker={worker} about={about} />
      ))}
    </ul>
  );
}

/** A tile is drawn again only if its worker has changed. */
const Tile = memo(({ id, model, state, worker, about }: Omit<FleetMember, 'key'>) => (
  <li class={`tile ${state}`}>
    <div class="tile-head">
      {worker === undefined || state === 'gone' ? (
        <span class="mono">{id}</span>
      ) : (
        <a class="mono" href={linkTo(['workers', id])}>
          {id}
        </a>
      )}
      {worker?.machine?.market === 'spot' && <span class="tag">spot</span>}
    </div>
    <div class="small muted cut">
      {model}
      {worker !== undefined && `, ${worker.pool}`}
    </div>
    <div class="small">
      <State name={state} />
      <span class="muted">{about}</span>
    </div>
    {worker !== undefined && state !== 'gone' && (
      <>
        <div class="small">
          <span class="muted">KV</span>{' '}
          <KvShare used={worker.kv_blocks} total={worker.kv_blocks_total} hasCounts={false} />
        </div>
        <div class="small muted">
          {worker.requests === null
            ? 'load unknown'
            : `${short(worker.requests)} requests, ${short(worker.prefill_tokens)} tokens to prefill`}
        </div>
        <div class="small muted cut">{gpuWords(worker)}</div>
      </>
    )}
  </li>
));

function gpuWords({ machine, device, ranks }: NonNullable<FleetMember['worker']>): string {
  const place = [machine?.instance_type ?? device, machine?.zone].filter(Boolean).join(', ');
  const many = ranks === 1 ? '' : `, ${ranks} ranks`;
  return `${place === '' ? 'machine unknown' : place}${many}`;
}
