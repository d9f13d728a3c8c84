import type { ConsoleRequestDetail } from '../../shared/console/wire/requests.ts';
import { short, whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';

/** The parts of a routing decision that the page shows; as `/router/explain` answers. */
interface Explanation {
  readonly cost_model: string;
  readonly prompt_tokens: number;
  readonly blocks: number;
  readonly temperature: number;
  readonly waited_ms: number;
  readonly second_look?: { readonly held_ms: number; readonly before: number };
  readonly chosen: { readonly worker_id: string; readonly dp_rank: number; readonly reason: string } | null;
  readonly failure: string | null;
  readonly candidates: readonly Candidate[];
  readonly prefill?: Explanation;
}

interface Candidate {
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly cost: number;
  readonly overlap: Readonly<Record<'device' | 'host_pinned' | 'disk' | 'shared', number>>;
  readonly load: Readonly<Record<'prefill_tokens' | 'decode_blocks' | 'added_blocks' | 'requests', number>>;
  readonly terms: Readonly<Record<string, number>>;
  readonly factor: number;
}

const REASONS: Readonly<Record<string, string>> = {
  only: 'it was the only one that may take the request',
  'lowest-cost': 'it had the lowest cost',
  tie: 'it was one of several with the lowest cost',
  drawn: 'it was drawn, with a chance by its cost',
  pinned: 'the request names it',
  session: 'its session went there before',
};

/** Candidates that are shown; a fleet may have thousands. */
const CANDIDATES_MAX = 50;

/** The routing decision of a request: all candidates with the parts of their costs. */
export function Decision({ detail: { decision, no_decision: why } }: { readonly detail: ConsoleRequestDetail }) {
  if (decision === null) return <p class="muted">{why}</p>;
  const explanation = decision as unknown as Explanation;
  return (
    <>
      {explanation.prefill !== undefined && <Choice title="Prefill" explanation={explanation.prefill} />}
      <Choice title={explanation.prefill === undefined ? '' : 'Decode'} explanation={explanation} />
    </>
  );
}

function Choice({ title, explanation }: { readonly title: string; readonly explanation: Explanation }) {
  const { chosen, failure, candidates, second_look: look } = explanation;
  const reason = chosen === null ? `No worker: ${failure}` : (REASONS[chosen.reason] ?? chosen.reason);
  return (
    <div class="card">
      {title !== '' && <h3>{title}</h3>}
      <p>
        {chosen === null ? (
          reason
        ) : (
          <>
            Worker <span class="mono">{chosen.worker_id}</span> rank {chosen.dp_rank} was chosen: {reason}.
          </>
        )}{' '}
        <span class="muted">
          {whole(explanation.prompt_tokens)} prompt tokens in {whole(explanation.blocks)} blocks, cost model{' '}
          {explanation.cost_model}
          {explanation.temperature > 0 && `, temperature ${explanation.temperature}`}
          {explanation.waited_ms > 0 && `, waited ${short(explanation.waited_ms)} ms`}
          {look && `, decided again after ${short(look.held_ms)} ms with ${look.before} of other routers before it`}.
        </span>
      </p>
      <Candidates explanation={explanation} />
      {candidates.length > CANDIDATES_MAX && (
        <p class="muted small">
          The {CANDIDATES_MAX} cheapest of {candidates.length} candidates.
        </p>
      )}
    </div>
  );
}

function Candidates({ explanation: { chosen, candidates } }: { readonly explanation: Explanation }) {
  const shown = candidates.slice(0, CANDIDATES_MAX);
  const terms = [...new Set(candidates.flatMap((candidate) => Object.keys(candidate.terms)))];
  const dearest = Math.max(...shown.map(({ cost }) => cost), 1e-9);
  return (
    <Scroll label="Table of candidates">
      <table>
        <thead>
          <tr>
            <th scope="col">Candidate</th>
            <th scope="col" class="n">
              Rank
            </th>
            <th scope="col">Cost</th>
            {terms.map((term) => (
              <th key={term} scope="col" class="n">
                {term.replaceAll('_', ' ')}
              </th>
            ))}
            <th scope="col" class="n">
              Cached blocks
            </th>
            <th scope="col" class="n">
              To prefill
            </th>
            <th scope="col" class="n">
              Blocks in use
            </th>
            <th scope="col" class="n">
              Adds
            </th>
            <th scope="col" class="n">
              Requests
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => {
            const isChosen = each.worker_id === chosen?.worker_id && each.dp_rank === chosen.dp_rank;
            const { device, host_pinned, disk, shared } = each.overlap;
            return (
              <tr key={`${each.worker_id}/${each.dp_rank}`} class={isChosen ? 'chosen' : undefined}>
                <th scope="row" class="mono">
                  {each.worker_id}
                  {isChosen && <span class="state ready">chosen</span>}
                </th>
                <td class="n">{each.dp_rank}</td>
                <td>
                  <span class="share">
                    <span class="track" aria-hidden="true">
                      <span style={{ width: `${Math.max(0, each.cost / dearest) * 100}%` }} />
                    </span>
                    <span class="n">{short(each.cost)}</span>
                    {each.factor !== 1 && <span class="muted small">x {each.factor}</span>}
                  </span>
                </td>
                {terms.map((term) => (
                  <td key={term} class="n">
                    {short(each.terms[term] ?? 0)}
                  </td>
                ))}
                <td class="n">{whole(device + host_pinned + disk + shared)}</td>
                <td class="n">{whole(each.load.prefill_tokens)}</td>
                <td class="n">{short(each.load.decode_blocks)}</td>
                <td class="n">{short(each.load.added_blocks)}</td>
                <td class="n">{whole(each.load.requests)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}
