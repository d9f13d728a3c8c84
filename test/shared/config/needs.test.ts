import { describe, expect, it } from 'vitest';
import { renderConfigurationDocs } from '../../../shared/config/describe.ts';
import { renderHelp } from '../../../shared/config/help.ts';
import { type Process, resolveConfig } from '../../../shared/config/index.ts';

function idleOf(process: Process, argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { warnings } = resolveConfig(process, argv, env, { allowMissing: true });
  return warnings.filter((warning) => warning.includes('no effect'));
}

const KV = '--router-mode=kv';

describe('a setting that another one switches off', () => {
  it.each<[Process, readonly string[], Readonly<Record<string, string>>, string]>([
    [
      'frontend',
      ['--router-kv-overlap-score-credit=0.5'],
      {},
      '--router-kv-overlap-score-credit has no effect: it needs --router-mode kv',
    ],
    [
      'frontend',
      [KV, '--router-temperature=1', '--router-cost-model=stator'],
      {},
      '--router-temperature has no effect: it needs --router-cost-model other than stator',
    ],
    ['frontend', [KV, '--router-ttl-secs=9'], {}, '--router-ttl-secs has no effect: it needs --no-router-kv-events'],
    [
      'frontend',
      [KV, '--event-plane=nats', '--discovery-backend=mem', '--router-snapshot-threshold=9'],
      {},
      '--router-snapshot-threshold has no effect: it needs',
    ],
    ['frontend', [KV], { DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS: '3' }, 'it needs --router-cost-model dynamo'],
    [
      'frontend',
      [KV, '--router-queue-threshold=None', '--router-queue-policy=wspt'],
      {},
      'it needs --router-queue-threshold other than None',
    ],
    ['frontend', ['--active-decode-blocks-threshold=0.5'], {}, 'it needs --admission-control token-capacity'],
    ['frontend', ['--grpc-max-message-mb=9'], {}, 'it needs --grpc-port or --kserve-grpc-server'],
    [
      'frontend',
      [],
      { DYN_REQUEST_TRACE_CAPACITY: '9' },
      'DYN_REQUEST_TRACE_CAPACITY has no effect: it needs DYN_REQUEST_TRACE',
    ],
    ['worker', ['--engine=openai', '--engine-url=http://x', '--speedup-ratio=2'], {}, 'it needs --engine mocker'],
    ['router', ['--service-host=127.0.0.2'], {}, 'it needs --service other than router'],
    ['simulate', ['--workload=steady', '--burst-size=3'], {}, '--burst-size has no effect: it needs --workload bursts'],
    ['simulate', ['--router-mode=random', '--router-tie-break=fewest-blocks'], {}, 'it needs --router-mode kv'],
    ['local', ['--max-workers=9'], {}, '--max-workers has no effect: it needs --planner'],
    ['simulate', ['--planner', '--planner-model=m'], {}, '--planner-model has no effect: it needs --planner-fleets'],
    ['function', [], { STATOR_PLANNER_TABLE: 't' }, 'STATOR_PLANNER_TABLE has no effect: it needs --hold-timeout'],
    [
      'frontend',
      ['--console-requests=0', '--planner-dir=/p', '--instance-prices=g6e.xlarge=1', '--token-prices=m=1/2'],
      { STATOR_PLANNER_TABLE: 't' },
      'have no effect: they need --console-requests other than 0',
    ],
    ['frontend', ['--planner-dir=/p'], { DYN_DISABLE_FRONTEND_ADMIN_API: 'true' }, '--planner-dir has no effect'],
  ])('is reported at the start of %s %j %j', (process, argv, env, says) => {
    expect(idleOf(process, argv, env)).toEqual([expect.stringContaining(says)]);
  });

  it('appears in one line with others that need the same', () => {
    const argv = ['--router-temperature=1', '--router-replica-sync', '--router-queue-policy=lcfs'];
    expect(idleOf('frontend', argv)).toEqual([
      '--router-temperature, --router-replica-sync, --router-queue-policy have no effect: they need --router-mode kv',
    ]);
  });

  it.each<[Process, readonly string[], Readonly<Record<string, string>>]>([
    ['frontend', ['--load-aware', '--router-queue-policy=lcfs'], {}],
    ['frontend', [KV, '--router-ttl-secs=9', '--no-router-kv-events'], {}],
    ['frontend', [KV, '--event-plane=nats', '--router-reset-states'], { STATOR_STATE_TABLE: 't' }],
    ['frontend', ['--router-temperature=0', '--router-queue-policy=auto', '--hold-max=256'], {}], // as without them
    ['frontend', ['--roles=http,grpc', '--grpc-max-message-mb=9'], {}],
    ['frontend', ['--request-plane=nats'], { NATS_SERVER: 'nats://b:4222' }],
    ['function', [], { DYN_ROUTER_MODE: 'kv', STATOR_ROUTER_CHOOSE_TIMEOUT_MS: '20' }],
    ['router', ['--endpoint=a.b.c', '--router-temperature=1', '--router-queue-policy=lcfs'], {}], // it is of mode kv
    ['simulate', ['--router-mode=kv', '--router-temperature=1'], {}],
    ['planner', ['--planner-law=rate'], {}],
  ])('is not one for %s %j %j', (process, argv, env) => {
    expect(idleOf(process, argv, env)).toEqual([]);
  });

  it('says what it needs where it is described', () => {
    const page = renderConfigurationDocs();
    expect(page).toMatch(/`--router-snapshot-threshold` .* Needs --router-mode kv, .*STATOR_STATE_TABLE.*\. \|/);
    expect(page).toMatch(/`--router-reset-states`.* Needs --router-mode kv, .*STATOR_STATE_TABLE.*\. \|/);
    expect(page).toMatch(/`--active-prefill-tokens-threshold` .* Needs --admission-control token-capacity\. \|/);
    expect(renderHelp('simulate').replace(/\s+/g, ' ')).toContain('Needs --planner.');
    expect(renderHelp('planner').replace(/\s+/g, ' ')).not.toContain('Needs --planner.');
  });
});
