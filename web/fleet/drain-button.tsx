import { useState } from 'preact/hooks';
import { ask } from '../server.ts';

type Step = { readonly kind: 'idle' | 'asking' | 'sent' } | { readonly kind: 'failed'; readonly reason: string };

/** Orders a worker to drain, after a second press. */
export function DrainButton({ id }: { readonly id: string }) {
  const [step, setStep] = useState<Step>({ kind: 'idle' });
  const drain = async (): Promise<void> => {
    setStep({ kind: 'sent' });
    try {
      await ask(`console/api/drain/${encodeURIComponent(id)}`, { method: 'POST' });
    } catch (thrown) {
      setStep({ kind: 'failed', reason: thrown instanceof Error ? thrown.message : String(thrown) });
    }
  };
  switch (step.kind) {
    case 'idle':
      return (
        <button type="button" class="plain" aria-label={`Drain worker ${id}`} onClick={() => setStep({ kind: 'asking' })}>
          Drain
        </button>
      );
    case 'asking':
      return (
        <>
          <button type="button" class="plain danger" aria-label={`Drain worker ${id} now`} onClick={() => void drain()}>
            Drain now
          </button>
          <button type="button" class="plain" onClick={() => setStep({ kind: 'idle' })}>
            Keep
          </button>
        </>
      );
    case 'sent':
      return <span class="muted">ordered</span>;
    case 'failed':
      return <span role="alert">{step.reason}</span>;
  }
}
