/** What a worker tells the `stator local` that started it, once. */
export type WorkerReport = { readonly kind: 'ready' } | { readonly kind: 'failed'; readonly reason: string };

/**
 * Tells the parent that holds the IPC channel. False for a process that has none; true also when the parent has closed the
 * channel, as it then wants to hear no more.
 */
export function reportToParent(report: WorkerReport): Promise<boolean> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve(process.connected === false);
    else process.send(report, undefined, {}, () => resolve(true)); // fails only for a channel that was closed meanwhile
  });
}

/** The report in a message of a child. */
export function readReport(message: unknown): WorkerReport | undefined {
  const { kind, reason } = (message ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'ready') return { kind };
  return kind === 'failed' && typeof reason === 'string' ? { kind, reason } : undefined;
}
