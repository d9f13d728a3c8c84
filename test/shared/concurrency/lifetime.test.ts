import { describe, expect, it } from 'vitest';
import { Lifetime } from '../../../shared/concurrency/index.ts';

/** Opens things by name, and notes the order in which they are closed. */
function bedOf() {
  const closed: string[] = [];
  const open = (name: string) => ({ name, close: (): void => void closed.push(name) });
  const openLate = (name: string) => ({
    name,
    close: async (): Promise<void> => {
      await Promise.resolve();
      closed.push(name);
    },
  });
  const openBad = (name: string) => ({
    name,
    close: (): void => {
      closed.push(name);
      throw new Error(`${name} does not close`);
    },
  });
  return { closed, open, openLate, openBad };
}

describe('Lifetime', () => {
  it('closes values, values of promises and deferred steps in reverse order, one after the other', async () => {
    const { closed, open, openLate } = bedOf();
    const lifetime = new Lifetime();
    const first = lifetime.use(open('first'));
    const second = await lifetime.use(Promise.resolve(openLate('second')));
    lifetime.use({ name: 'third' }, ({ name }) => closed.push(name));
    lifetime.defer(() => closed.push('fourth'));
    expect([first.name, second.name]).toEqual(['first', 'second']);
    expect(closed).toEqual([]);
    await lifetime.close();
    expect(closed).toEqual(['fourth', 'third', 'second', 'first']);
  });

  it('closes by the given function rather than by the value itself', async () => {
    const { closed, open } = bedOf();
    const lifetime = new Lifetime();
    await lifetime.use(Promise.resolve(open('value')), () => closed.push('function'));
    await lifetime.close();
    expect(closed).toEqual(['function']);
  });

  it('has nothing to close of what was not opened', async () => {
    const lifetime = new Lifetime();
    expect(lifetime.use(undefined as { close(): void } | undefined)).toBeUndefined();
    expect(await lifetime.use(Promise.resolve(undefined), () => expect.unreachable())).toBeUndefined();
    await lifetime.close();
  });

  it('closes each once, however often it is asked', async () => {
    const { closed, openLate } = bedOf();
    const lifetime = new Lifetime();
    lifetime.use(openLate('one'));
    const both = Promise.all([lifetime.close(), lifetime.close()]);
    await both;
    await lifetime.close();
    expect(closed).toEqual(['one']);
  });

  it('closes the rest when one fails, and rejects with that failure', async () => {
    const { closed, open, openBad } = bedOf();
    const lifetime = new Lifetime();
    lifetime.use(open('first'));
    lifetime.use(openBad('second'));
    lifetime.use(open('third'));
    await expect(lifetime.close()).rejects.toThrow('second does not close');
    expect(closed).toEqual(['third', 'second', 'first']);
  });

  it('rejects with all failures when several fail', async () => {
    const { openBad } = bedOf();
    const lifetime = new Lifetime();
    lifetime.use(openBad('first'));
    lifetime.defer(() => Promise.reject(new Error('second does not close')));
    const failure = await lifetime.close().catch((thrown: unknown) => thrown);
    expect(failure).toBeInstanceOf(AggregateError);
    expect((failure as AggregateError).errors.map(String)).toEqual([
      'Error: second does not close',
      'Error: first does not close',
    ]);
  });

  it('closes at once what is opened after its end, and says so', async () => {
    const { closed, open, openBad } = bedOf();
    const lifetime = new Lifetime();
    await lifetime.close();
    expect(() => lifetime.use(open('late'))).toThrow('opened after its lifetime had ended');
    await expect(lifetime.use(Promise.resolve(openBad('later')))).rejects.toThrow(
      'opened after its lifetime had ended',
    );
    expect(() => lifetime.defer(() => closed.push('last'))).toThrow('opened after its lifetime had ended');
    expect(closed).toEqual(['late', 'later', 'last']);
  });

  it('closes what comes while it closes', async () => {
    const { closed, open, openLate } = bedOf();
    const lifetime = new Lifetime();
    lifetime.use(openLate('first'));
    const arriving = lifetime.use(Promise.resolve(open('second')));
    const closing = lifetime.close();
    await expect(arriving).rejects.toThrow('opened after its lifetime had ended');
    await closing;
    expect(closed.toSorted()).toEqual(['first', 'second']);
  });

  it('keeps nothing of an opening that fails', async () => {
    const lifetime = new Lifetime();
    const failing: Promise<{ close(): void }> = Promise.reject(new Error('not opened'));
    await expect(lifetime.use(failing)).rejects.toThrow('not opened');
    await lifetime.close();
  });
});

describe('Lifetime.compose', () => {
  it('hands over what was composed, open', async () => {
    const { closed, open } = bedOf();
    const composed = await Lifetime.compose(async (lifetime) => {
      const first = lifetime.use(open('first'));
      return { first, close: () => lifetime.close() };
    });
    expect(closed).toEqual([]);
    await composed.close();
    expect(closed).toEqual(['first']);
  });

  it('closes all that was opened when a later step fails, and rejects with that failure alone', async () => {
    const { closed, open, openBad } = bedOf();
    const composing = Lifetime.compose(async (lifetime) => {
      lifetime.use(open('first'));
      lifetime.use(openBad('second'));
      await lifetime.use(Promise.reject(new Error('third cannot be opened')), () => expect.unreachable());
    });
    await expect(composing).rejects.toThrow('third cannot be opened');
    expect(closed).toEqual(['second', 'first']);
  });
});

describe('Lifetime.run', () => {
  it('closes all that was opened before it resolves', async () => {
    const { closed, openLate } = bedOf();
    const result = await Lifetime.run(async (lifetime) => lifetime.use(openLate('first')).name);
    expect(result).toBe('first');
    expect(closed).toEqual(['first']);
  });

  it('closes all that was opened when the work fails, and rejects with that failure alone', async () => {
    const { closed, openBad } = bedOf();
    const running = Lifetime.run(async (lifetime) => {
      lifetime.use(openBad('first'));
      throw new Error('the work fails');
    });
    await expect(running).rejects.toThrow('the work fails');
    expect(closed).toEqual(['first']);
  });

  it('rejects when something does not close', async () => {
    const { openBad } = bedOf();
    await expect(Lifetime.run(async (lifetime) => lifetime.use(openBad('first')).name)).rejects.toThrow(
      'first does not close',
    );
  });
});
