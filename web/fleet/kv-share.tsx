import { whole } from '../format.ts';

interface ShareProps {
  readonly used: number | null;
  readonly total: number | null;
  /** Whether the numbers of blocks are shown. @default true */
  readonly hasCounts?: boolean;
}

/** Share of the KV blocks in use, as a bar and in words. */
export function KvShare({ used, total, hasCounts = true }: ShareProps) {
  if (used === null) return <span class="muted">–</span>;
  if (total === null || total === 0) return <span>{whole(used)} blocks</span>;
  const share = Math.min(1, used / total);
  return (
    <span class="share">
      <span class={share > 0.9 ? 'track full' : 'track'} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span class="n">{Math.round(share * 100)} %</span>
      {hasCounts && (
        <span class="muted small">
          {whole(used)} of {whole(total)}
        </span>
      )}
    </span>
  );
}
