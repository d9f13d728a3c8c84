import { vi } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { openAutoScaling } from '../../../shared/host/lifecycle/auto-scaling.ts';
import { startAutoScaling } from '../../support/aws/auto-scaling/index.ts';
import { waitUntil } from '../../support/index.ts';
import { MemoryLifecycle } from '../../support/memory-lifecycle.ts';
import { testLifecycleActions } from './lifecycle-actions.contract.ts';

testLifecycleActions('memory', async () => {
  const actions = new MemoryLifecycle('launch');
  return {
    actions,
    isWaiting: () => actions.open.has('launch'),
    isHealthy: () => actions.isHealthy,
    close: async () => {},
  };
});

testLifecycleActions('Auto Scaling', async () => {
  const hook = (name: string, transition: 'EC2_INSTANCE_LAUNCHING' | 'EC2_INSTANCE_TERMINATING') => ({
    name,
    transition: `autoscaling:${transition}` as const,
  });
  const hooks = [hook('launch', 'EC2_INSTANCE_LAUNCHING'), hook('terminate', 'EC2_INSTANCE_TERMINATING')];
  const group = { name: 'chat', types: ['g6e.xlarge'], zones: ['us-east-1a'], desired: 1, max: 1, hooks };
  const times = { launchMs: 0, terminateMs: 0 };
  const scaling = await startAutoScaling({ clock: systemClock, times, groups: [group] });
  const instance = await waitUntil(() => scaling.instances('chat').find(({ state }) => state === 'Pending:Wait'));
  vi.stubEnv('AWS_ENDPOINT_URL_AUTO_SCALING', scaling.url);
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'local');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'local');
  const options = { group: 'chat', instanceId: instance.id, region: 'us-east-1', clock: systemClock };
  const actions = await openAutoScaling(options);
  return {
    actions,
    isWaiting: () => instance.state === 'Pending:Wait',
    isHealthy: () => instance.isHealthy,
    close: async () => {
      vi.unstubAllEnvs();
      actions.close();
      await scaling.stop();
    },
  };
});
