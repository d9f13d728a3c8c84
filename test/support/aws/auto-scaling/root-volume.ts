import type { Account } from './account.ts';
import { beginActivity, endActivity } from './activities.ts';
import { waitForHooks } from './hooks.ts';
import type { FakeInstance, Template } from './types.ts';

/**
 * Gives an instance another root volume while it keeps its place ("Replace root volumes during instance refresh"):
 * ReplacingRootVolume, :Wait if the group has a termination hook, :Proceed, RootVolumeReplaced, and InService again.
 */
export function replaceRootVolume(
  account: Account,
  instance: FakeInstance,
  { version, imageId }: Template,
  done: () => void,
): void {
  const { group, id, zone } = instance;
  const description = `Replacing the root volume of EC2 instance: ${id}`;
  const cause = 'an instance refresh replaces the root volume of an instance.';
  const activity = beginActivity(account, group, { description, cause, zone, instanceId: id });
  activity.status = 'InPlaceUpdateInProgress';
  account.setState(instance, 'ReplacingRootVolume');
  waitForHooks(account, instance, {
    transition: 'autoscaling:EC2_INSTANCE_TERMINATING',
    route: { origin: 'AutoScalingGroup', destination: 'AutoScalingGroup' },
    state: 'ReplacingRootVolume:Wait',
    done: () => {
      account.setState(instance, 'ReplacingRootVolume:Proceed');
      account.options.onStop?.(instance);
      account.later(instance, account.times.rootVolumeMs, () => {
        account.options.onStart?.(instance);
        account.setState(instance, 'RootVolumeReplaced');
        account.setState(instance, 'InService');
        instance.inServiceAtMs = account.clock.nowMs();
        instance.templateVersion = version;
        instance.imageId = imageId;
        endActivity(account, activity, 'Successful');
        done();
        account.poke(group);
      });
    },
  });
}
