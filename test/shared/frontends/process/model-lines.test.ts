import { describe, expect, it } from 'vitest';
import { ModelLines } from '../../../../shared/frontends/process/observers.ts';
import type { RoutableModel } from '../../../../shared/pipeline/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { servedModel } from '../../../support/scripted-pipeline.ts';

function model(name: string, ...workerIds: string[]): RoutableModel {
  const isReady = workerIds.length > 0;
  const readiness = { ...servedModel(name).readiness, isReady, reason: isReady ? undefined : 'no worker' };
  const workers = workerIds.map((id) => ({ id }));
  return { ...servedModel(name), readiness, workers } as unknown as RoutableModel;
}

function follow(...changes: readonly (readonly RoutableModel[])[]) {
  const { logger, lines } = captureLogger();
  const models = new ModelLines(logger);
  for (const change of changes) models.changed(change);
  return lines.map(({ level, message, fields }) => [level, message, ...Object.values(fields)].join(' '));
}

describe('the lines of models', () => {
  it('tell those that come and go, and for details their workers', () => {
    expect(follow([model('m', 'a')], [model('m', 'a', 'b')], [model('m', 'b')], [])).toEqual([
      'info model is served m 1 ',
      'debug worker joins m a 1',
      'debug worker joins m b 2',
      'debug worker leaves m a 1',
      'info model is no longer served m its last worker has left',
      'debug worker leaves m b 0',
    ]);
  });

  it('tell a model that cannot be served for now, once', () => {
    expect(
      follow([model('m')], [model('m', 'a')], [model('m')], [model('m')], []).filter((line) => /^info/.test(line)),
    ).toEqual(['info model is served m 1 ', 'info model is no longer served m no worker']);
  });
});
