import type { ConsoleWorkerDetail } from '../../shared/console/wire/worker.ts';
import { KvShare } from '../fleet/kv-share.tsx';
import { whole } from '../format.ts';
import { Scroll } from '../scroll.tsx';

type Cache = NonNullable<ConsoleWorkerDetail['cache']>;
type Rank = Cache['ranks'][number];

/** Cache of a worker: blocks of each rank, and the prefixes that its prompts share. */
export function CacheView({ detail }: { readonly detail: ConsoleWorkerDetail }) {
  const { cache, no_cache: why, worker, block_tokens: blockTokens } = detail;
  if (cache === null) return <p class="muted">{why}</p>;
  const total = worker.kv_blocks_total === null ? null : worker.kv_blocks_total / worker.ranks;
  return (
    <>
      <p class="muted">
        {cache.source === 'reported'
          ? 'As the worker reports it to the router.'
          : 'As the router predicts it from the requests that it has sent to the worker.'}{' '}
        {blockTokens > 0 && `A block has ${blockTokens} tokens.`} The index knows hashes, no text of prompts. It counts
        no hits of a prefix: a prefix with many continuations was used by as many prompts.
      </p>
      {cache.ranks.map((rank) => (
        <RankCache key={rank.dp_rank} rank={rank} total={total} isOnly={cache.ranks.length === 1} />
      ))}
    </>
  );
}

interface RankProps {
  readonly rank: Rank;
  /** KV blocks of a rank; null = unknown. */
  readonly total: number | null;
  readonly isOnly: boolean;
}

function RankCache({ rank, total, isOnly }: RankProps) {
  const { dp_rank: dpRank, device_blocks: device, host_blocks: host, disk_blocks: disk, prefixes } = rank;
  return (
    <>
      {!isOnly && <h3>Rank {dpRank}</h3>}
      <p>
        <KvShare used={device} total={total} /> cached on the device
        {host > 0 && `, ${whole(host)} in host memory`}
        {disk > 0 && `, ${whole(disk)} on disk`}
        {!rank.is_whole && ' (only a part was counted)'}
      </p>
      {prefixes.length > 0 && <Prefixes prefixes={prefixes} label={`Table of prefixes of rank ${dpRank}`} />}
    </>
  );
}

function Prefixes({ prefixes, label }: { readonly prefixes: Rank['prefixes']; readonly label: string }) {
  return (
    <Scroll label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">Hash of the last block</th>
            <th scope="col" class="n">
              Depth in blocks
            </th>
            <th scope="col" class="n">
              Continuations
            </th>
            <th scope="col" class="n">
              Blocks below it
            </th>
          </tr>
        </thead>
        <tbody>
          {prefixes.map(({ hash, depth, below, branches }) => (
            <tr key={hash}>
              <th scope="row" class="mono">
                {hash}
              </th>
              <td class="n">{whole(depth)}</td>
              <td class="n">{whole(branches)}</td>
              <td class="n">{whole(below)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
