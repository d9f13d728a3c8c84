import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { openRequestRecords } from '../../../../shared/frontends/process/records.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import type { RequestEnd } from '../../../../shared/telemetry/records/request-records.ts';

const END: RequestEnd = {
  requestId: 'r',
  clientRequestId: undefined,
  model: 'm',
  endpoint: 'completions',
  status: 200,
  errorType: undefined,
  receivedMs: 1,
  totalMs: 2,
  ttftMs: undefined,
  inputTokens: undefined,
  outputTokens: undefined,
  cachedTokens: undefined,
  agentContext: undefined,
};

describe('request records of a deployment', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-records-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  function open(requestTrace: string | undefined, requestTraceFilePath = join(folder, 'records.jsonl')) {
    const registry = new MetricRegistry();
    const { logger, lines } = captureLogger();
    const settings = {
      ...resolveConfig('frontend', [], {}).settings,
      requestTrace,
      requestTraceSinks: ['file'] as const,
      requestTraceFilePath,
      requestTraceFileFormat: 'jsonl' as const,
      requestTraceCapacity: 10,
    };
    return { records: openRequestRecords(settings, SYSTEM.clock, registry, logger), registry, lines };
  }

  it.each([undefined, '', '0', 'false', 'off'])('are not kept for %j', (requestTrace) => {
    expect(open(requestTrace).records).toBeUndefined();
  });

  it.each(['1', 'true', 'file', ' File ,file'])('go to the file for %j', async (requestTrace) => {
    const { records } = open(requestTrace);
    records?.requestEnded(END);
    await records?.close();
    const lines = (await readFile(join(folder, 'records.jsonl'), 'utf8')).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).event.request.request_id)).toEqual(['r']);
  });

  it('are counted when they are lost, and the loss is reported once', async () => {
    const { records, registry, lines } = open('file', join(folder, 'records.jsonl', 'below', 'a\0file'));
    for (let at = 0; at < 12; at++) records?.requestEnded(END);
    await records?.close();
    const text = await registry.render();
    expect(text).toContain('stator_request_records_dropped_total{reason="sink_failed"}');
    expect(lines.filter(({ message }) => message === 'request records cannot be written')).toHaveLength(1);
  });

  it('are refused at the start for a sink that is not built', () => {
    expect(() => open('nats')).toThrow(/^DYN_REQUEST_TRACE: the sink 'nats' is not built; use file or stderr$/);
  });
});
