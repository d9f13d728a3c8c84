import { describe, expect, it } from 'vitest';
import type { ModelCard, ModelRecord, WorkerType } from '../../../../shared/discovery/index.ts';
import { readinessOf } from '../../../../shared/pipeline/models/routable-model.ts';

function record(type: WorkerType, needs: WorkerType[][] = [], namespace = 'dynamo'): ModelRecord {
  const card = { worker_type: type, needs } as unknown as ModelCard;
  return { type: 'Model', namespace, component: 'backend', endpoint: 'generate', instance_id: '1', card };
}

describe('readinessOf', () => {
  it('is not ready without a worker', () => {
    expect(readinessOf([])).toEqual({
      isReady: false,
      reason: 'no namespace has all required worker types live',
      namespaces: {},
    });
  });

  it('is ready with one aggregated worker', () => {
    expect(readinessOf([record('aggregated')]).isReady).toBe(true);
  });

  it('names the peer that a decode worker waits for', () => {
    const readiness = readinessOf([record('decode', [['prefill']])]);
    expect(readiness.namespaces.dynamo).toEqual({
      isReady: false,
      reason: 'missing worker types: prefill',
      workerTypes: { decode: { workers: 1, needs: [['prefill']] } },
      missingWorkerTypes: ['prefill'],
    });
  });

  it('is ready once prefill and decode stand in the same namespace, not in two', () => {
    const decode = record('decode', [['prefill']]);
    expect(readinessOf([decode, record('prefill', [['decode']])]).isReady).toBe(true);
    expect(readinessOf([decode, record('prefill', [['decode']], 'other')]).isReady).toBe(false);
  });

  it('needs only one of several alternatives', () => {
    const encode = record('encode', [['prefill', 'decode'], ['aggregated']]);
    expect(readinessOf([encode, record('aggregated')]).isReady).toBe(true);
    expect(readinessOf([encode]).namespaces.dynamo?.missingWorkerTypes).toEqual(['aggregated']);
  });

  it('is not ready with helpers alone', () => {
    expect(readinessOf([record('prefill')]).namespaces.dynamo?.reason).toBe('no serving worker');
  });

  it('takes decode workers alone where they may serve so', () => {
    const decode = record('decode', [['prefill']]);
    expect(readinessOf([decode], true)).toMatchObject({ isReady: true, namespaces: { dynamo: { isReady: true } } });
    expect(readinessOf([record('prefill', [['decode']])], true).isReady).toBe(false);
  });
});
