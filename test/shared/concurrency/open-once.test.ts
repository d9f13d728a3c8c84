import { describe, expect, it, vi } from 'vitest';
import { OpenOnce } from '../../../shared/concurrency/index.ts';

describe('a resource that its first use opens', () => {
  it('is opened once for all, and closed', async () => {
    const resource = { close: vi.fn(async () => {}) };
    const open = vi.fn(async () => resource);
    const once = new OpenOnce(open);
    expect(open).not.toHaveBeenCalled();
    expect(await Promise.all([once.get(), once.get()])).toEqual([resource, resource]);
    expect(open).toHaveBeenCalledTimes(1);
    await once.close();
    expect(resource.close).toHaveBeenCalledTimes(1);
  });

  it('is opened again by the next use after a failure', async () => {
    const resource = { close: vi.fn() };
    const open = vi.fn(async () => resource).mockRejectedValueOnce(new Error('away'));
    const once = new OpenOnce(open);
    await expect(once.get()).rejects.toThrow('away');
    expect(await once.get()).toBe(resource);
  });

  it('is not opened in order to be closed', async () => {
    const open = vi.fn(async () => ({ close: () => {} }));
    await new OpenOnce(open).close();
    expect(open).not.toHaveBeenCalled();
    const failing = new OpenOnce(async (): Promise<{ close(): void }> => {
      throw new Error('away');
    });
    failing.get().catch(() => {});
    await failing.close();
  });
});
