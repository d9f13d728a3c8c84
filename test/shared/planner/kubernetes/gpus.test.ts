import { describe, expect, it } from 'vitest';
import { gpusOfClaim, gpusOfClaims, gpusOfPod, gpusOfReplica } from '../../../../shared/planner/kubernetes/gpus.ts';

const limits = (name: string, count: string | number) => ({ resources: { limits: { [name]: count } } });
const request = (name: string, exactly: object) => ({ name, exactly });
const claim = (requests: readonly object[], results?: readonly object[]) => ({
  spec: { devices: { requests } },
  status: results === undefined ? {} : { allocation: { devices: { results } } },
});
const GPU = { deviceClassName: 'gpu.nvidia.com' };

describe('the limits of a pod', () => {
  it.each([
    ['those of all containers', { containers: [limits('nvidia.com/gpu', '2'), limits('nvidia.com/gpu', 1)] }, 3],
    ['thousands', { containers: [limits('nvidia.com/gpu', '1k')] }, 1000],
    ['no other resources', { containers: [limits('memory', '64Gi'), limits('nvidia.com/mig-1g.5gb', 1)] }, 0],
    [
      'the extended resource that Kubernetes derives from the class',
      { containers: [limits('deviceclass.resource.kubernetes.io/gpu.nvidia.com', 4)] },
      4,
    ],
    [
      'the larger one of containers and a container that runs before them',
      { containers: [limits('nvidia.com/gpu', 2)], initContainers: [limits('nvidia.com/gpu', 8)] },
      8,
    ],
    [
      'containers and sidecars together',
      {
        containers: [limits('nvidia.com/gpu', 2)],
        initContainers: [{ ...limits('nvidia.com/gpu', 1), restartPolicy: 'Always' }],
      },
      3,
    ],
    ['nothing of a pod without containers', {}, 0],
  ])('count %s', (_, spec, count) => {
    expect(gpusOfPod({ spec }).limits).toBe(count);
  });
});

describe('the GPUs of a resource claim', () => {
  it.each([
    ['the count of its requests', claim([request('a', { ...GPU, count: 4 }), request('b', GPU)]), 5],
    ['no devices of other classes', claim([request('nic', { deviceClassName: 'rdma', count: 2 })]), 0],
    [
      'nothing known while all of a node are asked for',
      claim([request('a', { ...GPU, allocationMode: 'All' })]),
      undefined,
    ],
    [
      'those of an allocation, if all of a node were asked for',
      claim(
        [request('a', { ...GPU, allocationMode: 'All' }), request('nic', { deviceClassName: 'rdma' })],
        [{ request: 'a' }, { request: 'a' }, { request: 'nic' }],
      ),
      2,
    ],
    [
      'nothing known while there are alternatives',
      claim([{ name: 'a', firstAvailable: [{ name: 'x', ...GPU }] }]),
      undefined,
    ],
    [
      'those of the alternative that was allocated',
      claim(
        [
          {
            name: 'a',
            firstAvailable: [
              { name: 'x', ...GPU },
              { name: 'y', deviceClassName: 'mig.nvidia.com' },
            ],
          },
        ],
        [{ request: 'a/x' }],
      ),
      1,
    ],
    [
      'none with administrative access, which others use',
      claim([request('a', { ...GPU, adminAccess: true })], [{ request: 'a', adminAccess: true }]),
      0,
    ],
  ])('are %s', (_, object, count) => {
    expect(gpusOfClaim(object)).toBe(count);
  });
});

describe('the GPUs of a replica', () => {
  const pod = (gpus: number, ...claims: string[]) => ({
    ...{ limits: gpus, claims, hasOpenClaims: false },
    sharedClaims: [],
  });

  it('are those of its pods, with a claim that they have together once', () => {
    const claims = new Map([
      ['own', 2],
      ['both', 8],
    ]);
    expect(gpusOfReplica([pod(1, 'own', 'both'), pod(1, 'both')], claims)).toBe(12);
  });

  it('are not those of a claim that its template names, which all replicas use', () => {
    const resourceClaims = [
      { name: 'own', resourceClaimTemplateName: 'gpus' },
      { name: 'all', resourceClaimName: 'shared' },
    ];
    const status = { resourceClaimStatuses: [{ name: 'own', resourceClaimName: 'pod-1-own' }] };
    const gpus = gpusOfPod({ spec: { resourceClaims }, status });
    expect(gpus).toMatchObject({ claims: ['pod-1-own'], sharedClaims: ['shared'], hasOpenClaims: false });
    const claims = new Map([
      ['pod-1-own', 2],
      ['shared', 8],
    ]);
    expect(gpusOfReplica([gpus], claims)).toBe(2);
    expect(gpusOfClaims(new Set(gpus.sharedClaims), claims)).toBe(8);
  });

  it.each([
    ['a claim is not made yet', [{ ...pod(1), hasOpenClaims: true }]],
    ['a claim is not allocated yet', [pod(1, 'open')]],
    ['a claim is gone', [pod(1, 'gone')]],
  ])('are not known while %s', (_, pods) => {
    expect(gpusOfReplica(pods, new Map([['open', undefined]]))).toBeUndefined();
  });
});
