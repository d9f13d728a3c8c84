import { useState } from 'preact/hooks';
import type { ConsoleWorkerDetail } from '../../shared/console/wire/worker.ts';
import { DrainButton } from '../fleet/drain-button.tsx';
import { KvShare } from '../fleet/kv-share.tsx';
import { machineWords } from '../fleet/members.ts';
import { State } from '../fleet/model-table.tsx';
import { percent, text, whole } from '../format.ts';
import { linkTo } from '../route.ts';
import type { LinkState } from '../server.ts';
import { useAsked } from '../use-asked.ts';
import { CacheView } from './cache-view.tsx';

interface WorkerPageProps {
  readonly id: string;
  readonly onLink: (state: LinkState) => void;
}

/** Page of one worker: its load, and what it has cached as it was when the page asked. */
export function WorkerPage({ id, onLink }: WorkerPageProps) {
  const [again, setAgain] = useState(0);
  const path = `console/api/workers/${encodeURIComponent(id)}`;
  const { answer, failure } = useAsked<ConsoleWorkerDetail>(path, again, onLink);
  return (
    <>
      <p class="bar-line">
        <a href={linkTo(['fleet'])}>The fleet</a>
        <a href={linkTo(['requests'], { worker: id })}>Its requests</a>
        <button type="button" onClick={() => setAgain(again + 1)}>
          Ask again
        </button>
        {answer !== undefined && answer.worker.state !== 'draining' && <DrainButton id={id} />}
      </p>
      <h1>
        Worker <span class="mono">{id}</span>
      </h1>
      {failure !== undefined && <p role="alert">{failure}</p>}
      {answer !== undefined && (
        <>
          <Facts detail={answer} />
          <section aria-labelledby="cache">
            <h2 id="cache">What it has cached</h2>
            <CacheView detail={answer} />
          </section>
        </>
      )}
    </>
  );
}

function Facts({ detail: { worker, requests } }: { readonly detail: ConsoleWorkerDetail }) {
  const { count, hits, prompt_tokens: prompt, cached_tokens: cached } = requests;
  const facts = [
    ['Model', worker.model],
    ['Pool', worker.pool],
    ['Endpoint', worker.endpoint],
    ['Machine', text([worker.machine?.instance_id, machineWords(worker)].filter(Boolean).join(', '))],
    ['Ranks', whole(worker.ranks)],
    ['Requests', whole(worker.requests)],
    ['Tokens to prefill', whole(worker.prefill_tokens)],
    ['Remembered requests', count === 0 ? 'none' : `${whole(count)}, ${whole(hits)} with cache hits`],
    ['Their cached tokens', prompt === 0 ? '–' : `${percent(cached / prompt)} of ${whole(prompt)}`],
  ] as const;
  return (
    <dl class="facts card">
      <div>
        <dt>State</dt>
        <dd>
          <State name={worker.state} />
        </dd>
      </div>
      <div>
        <dt>KV blocks in use</dt>
        <dd>
          <KvShare used={worker.kv_blocks} total={worker.kv_blocks_total} />
        </dd>
      </div>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
