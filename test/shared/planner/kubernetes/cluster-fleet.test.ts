import { describe, expect, it } from 'vitest';
import { readClusterFleets } from '../../../../shared/planner/kubernetes/cluster-fleet.ts';
import { podFleets, podOption } from '../../../support/planner/pod-fleet.ts';

const read = (raw: unknown) => readClusterFleets(JSON.stringify(raw), 'STATOR_PLANNER_FLEETS');
const eks = {
  kind: 'eks',
  namespace: 'serving',
  name: 'gpu',
  region: 'eu-west-1',
  endpoint: 'https://abc.gr7.eu-west-1.eks.amazonaws.com',
  certificateAuthority: 'LS0tLS0K',
};
const inCluster = (cluster: object) => ({ fleets: [{ ...podFleets().fleets[0], cluster }] });

describe('the fleets that a planner scales in a cluster', () => {
  it('have one worker for each replica of a workload', () => {
    const options = [podOption(), { ...podOption(1), workload: 'LeaderWorkerSet/large', types: ['p5.48xlarge'] }];
    const { fleets, gpusMax } = read({ gpusMax: 64, ...podFleets(options, { gpusPerReplica: 16 }) });
    expect(gpusMax).toBe(64);
    expect(fleets[0]?.pools.decode?.options).toMatchObject([
      { id: '0-on-demand', group: 'Deployment/w0', types: ['Deployment/w0'], gpusPerInstance: 16 },
      { id: '1-on-demand', group: 'LeaderWorkerSet/large', shownTypes: ['p5.48xlarge'], replicasPerInstance: 1 },
    ]);
  });

  it('wait for a node as long as a start takes, unless they say otherwise', () => {
    const waitMs = (pool: object) =>
      read(podFleets(undefined, pool)).fleets[0]?.workloads.decode?.get('0-on-demand')?.unschedulableMs;
    expect(waitMs({ startSecs: 300, unschedulableSecs: undefined })).toBe(300_000);
    expect(waitMs({ startSecs: 5, unschedulableSecs: undefined })).toBe(60_000);
    expect(waitMs({ startSecs: 300, unschedulableSecs: 90 })).toBe(90_000);
  });

  it('are in a cluster of EKS if they name it', () => {
    expect(read(inCluster(eks)).fleets[0]?.cluster).toEqual(eks);
    const named = { kind: 'eks', namespace: 'serving', name: 'gpu' };
    expect(read(inCluster(named)).fleets[0]?.cluster).toEqual(named); // the planner asks EKS for the rest
  });

  it.each([
    [inCluster({ ...eks, endpoint: 'http://example.com' }), /cluster\.endpoint .*: must be the https address/],
    [
      inCluster({ ...eks, certificateAuthority: undefined }),
      /cluster\.certificateAuthority left out: is missing: endpoint needs it/,
    ],
    [inCluster({ ...eks, endpoint: undefined }), /cluster\.endpoint left out: is missing: certificateAuthority needs/],
    [inCluster({ kind: 'gke', namespace: 'a' }), /cluster\.kind "gke"/],
    [inCluster({ kind: 'kubernetes', namespace: 'a/b' }), /namespace "a\/b": must be the name of a namespace/],
    [podFleets([podOption(0, { workload: 'StatefulSet/a' })]), /workload "StatefulSet\/a": must be Deployment\/NAME/],
    [podFleets([podOption(0, { min: 9 })]), /min 9: must not be above max/],
    [podFleets([podOption(0), podOption(1, { workload: 'Deployment/w0' })]), /Deployment\/w0 is there twice/],
  ])('are refused with the field and what is allowed: %#', (raw, problem) => {
    expect(() => read(raw)).toThrow(problem);
  });
});
