import { useState } from 'preact/hooks';
import { ask } from '../server.ts';
import { Sure } from '../sure.tsx';

/** Orders a worker to drain, at the second press. */
export function DrainButton({ id }: { readonly id: string }) {
  const [isSent, setSent] = useState(false);
  const [failure, setFailure] = useState<string>();
  const drain = async (): Promise<void> => {
    setSent(true);
    try {
      await ask(`console/api/drain/${encodeURIComponent(id)}`, { method: 'POST' });
    } catch (thrown) {
      setFailure(thrown instanceof Error ? thrown.message : String(thrown));
    }
  };
  if (failure !== undefined) return <span role="alert">{failure}</span>;
  if (isSent) return <span class="muted">ordered</span>;
  return <Sure word="Drain" about={`worker ${id}`} onSure={drain} />;
}
