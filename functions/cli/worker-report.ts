/** What a worker tells the `stator local` that started it, once. */
export type WorkerReport = { readonly kind: 'ready' } | { readonly kind: 'failed'; readonly reason: string };

/** Tells the parent that holds the IPC channel; false when there is none, or it is gone. */
export function reportToParent(report: WorkerReport): Promise<boolean> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve(false);
    else process.send(report, undefined, {}, (error) => resolve(error === null));
  });
}

/** The report in a message of a child. */
export function readReport(message: unknown): WorkerReport | undefined {
  const { kind, reason } = (message ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'ready') return { kind };
  return kind === 'failed' && typeof reason === 'string' ? { kind, reason } : undefined;
}
