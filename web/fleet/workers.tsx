import { useState } from 'preact/hooks';
import { linkTo } from '../route.ts';
import { isNamed, membersOf } from './members.ts';
import type { Fleet } from './use-fleet.ts';
import { WorkerTable } from './worker-table.tsx';
import { WorkerTiles } from './worker-tiles.tsx';

/** Workers on one page; only these are drawn. */
const PAGE_ROWS = 60;

interface WorkersProps {
  readonly fleet: Fleet;
  /** Undefined = all. */
  readonly model: string | undefined;
  readonly isTable: boolean;
}

/** The workers of the fleet as tiles or as a table, a page at a time, with a filter. */
export function Workers({ fleet, model, isTable }: WorkersProps) {
  const [wanted, setWanted] = useState('');
  const [page, setPage] = useState(0);
  const words = wanted.toLowerCase().split(/\s+/);
  const matching = membersOf(fleet).filter(
    (member) => (model === undefined || member.model === model) && isNamed(member, words),
  );
  const pages = Math.max(1, Math.ceil(matching.length / PAGE_ROWS));
  const at = Math.min(page, pages - 1);
  const shown = matching.slice(at * PAGE_ROWS, (at + 1) * PAGE_ROWS);
  return (
    <>
      <div class="bar-line">
        <label>
          <span class="unseen">Filter workers</span>
          <input
            type="search"
            placeholder="Filter: id, model, pool, state, zone"
            value={wanted}
            onInput={(event) => {
              setWanted(event.currentTarget.value);
              setPage(0);
            }}
          />
        </label>
        <nav class="switch" aria-label="Form of the workers">
          <a href={linkTo(['fleet'], { model })} aria-current={isTable ? undefined : 'true'}>
            Tiles
          </a>
          <a href={linkTo(['fleet'], { model, as: 'table' })} aria-current={isTable ? 'true' : undefined}>
            Table
          </a>
        </nav>
        <Pager at={at} pages={pages} onPage={setPage} />
        <span class="muted" role="status">
          {pages === 1
            ? `${matching.length} workers`
            : `${at * PAGE_ROWS + 1} to ${at * PAGE_ROWS + shown.length} of ${matching.length} workers`}
          {fleet.workers_left_out > 0 && `, and ${fleet.workers_left_out} that this page leaves out`}
        </span>
      </div>
      {isTable ? <WorkerTable members={shown} /> : <WorkerTiles members={shown} />}
    </>
  );
}

interface PagerProps {
  readonly at: number;
  readonly pages: number;
  readonly onPage: (page: number) => void;
}

function Pager({ at, pages, onPage }: PagerProps) {
  if (pages === 1) return null;
  return (
    <>
      <button type="button" disabled={at === 0} onClick={() => onPage(at - 1)}>
        Previous
      </button>
      <button type="button" disabled={at === pages - 1} onClick={() => onPage(at + 1)}>
        Next
      </button>
    </>
  );
}
