import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AutoScalingClient } from '@aws-sdk/client-auto-scaling';
import { SignatureV4 } from '@smithy/signature-v4';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { describeCluster } from '../../../../shared/planner/kubernetes/eks-cluster.ts';
import { accessTo } from '../../../../shared/planner/kubernetes/find-cluster.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { sha256 } = new AutoScalingClient({ region: 'eu-west-1' }).config;
const ACTIVE = {
  cluster: { endpoint: 'https://abc.gr7.eu-west-1.eks.amazonaws.com', certificateAuthority: { data: 'LS0tLS0K' } },
};

let server: Server;
let asked: { readonly url: string | undefined; readonly authorization: string | undefined }[];
let answer: { readonly status: number; readonly body: string };
beforeEach(async () => {
  asked = [];
  answer = { status: 200, body: JSON.stringify(ACTIVE) };
  server = createServer(({ url, headers: { authorization } }, response) => {
    asked.push({ url, authorization });
    response.writeHead(answer.status).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
});

const urlOf = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const describeIt = (more: object = {}) =>
  describeCluster({
    cluster: 'gpu/1',
    region: 'eu-west-1',
    credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret' },
    sha256,
    signer: SignatureV4,
    env: { AWS_ENDPOINT_URL_EKS: urlOf() },
    clock: new VirtualClock(),
    ...more,
  });

describe('the address of a cluster of EKS', () => {
  it('is what EKS says to a signed question', async () => {
    expect(await describeIt()).toEqual({
      endpoint: 'https://abc.gr7.eu-west-1.eks.amazonaws.com',
      certificateAuthority: 'LS0tLS0K',
    });
    expect(asked).toMatchObject([
      {
        url: '/clusters/gpu%2F1',
        authorization: expect.stringMatching(
          /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20231114\/eu-west-1\/eks\/aws4_request, SignedHeaders=host/,
        ),
      },
    ]);
  });

  it.each([
    [404, '{"message":"No cluster found for name: gpu."}', /No cluster found for name: gpu\.\. Check cluster\.name/],
    [403, '{"message":"not authorized"}', /not authorized\. Its role needs eks:DescribeCluster/],
    [502, '<html>', /: status 502\. The next batch asks again/],
    [200, '{"cluster":{"status":"CREATING"}}', /the cluster gpu\/1 has no address yet: it is CREATING/],
    [200, 'no JSON', /has no address yet/],
    [200, JSON.stringify(ACTIVE).replace('https', 'http'), /^EKS names http:.*: must be an https address$/],
  ])('is missing with the words of EKS and what to do: %i %s', async (status, body, message) => {
    answer = { status, body };
    await expect(describeIt()).rejects.toThrow(message);
  });

  it('is missing if EKS does not answer', async () => {
    const env = { AWS_ENDPOINT_URL_EKS: 'http://127.0.0.1:1' };
    await expect(describeIt({ env })).rejects.toThrow(/^EKS does not describe the cluster gpu\/1 in eu-west-1: /);
  });
});

describe('the way into a cluster of EKS', () => {
  it('leads to the address that EKS names, in the region of the planner', async () => {
    const env = { AWS_ENDPOINT_URL_EKS: urlOf(), AWS_REGION: 'eu-west-1' };
    const { server: found, ca } = await withKeys(() => accessTo(PLACE, env, new VirtualClock()));
    expect([found.href, String(ca)]).toEqual(['https://abc.gr7.eu-west-1.eks.amazonaws.com/', '-----\n']);
  });

  it('needs no question if the fleet names the address', async () => {
    const place = { ...PLACE, region: 'eu-west-1', endpoint: 'https://example.com', certificateAuthority: 'LS0tLS0K' };
    const { server: found } = await accessTo(place, { AWS_ENDPOINT_URL_EKS: urlOf() }, new VirtualClock());
    expect(found.href).toBe('https://example.com/');
    expect(asked).toEqual([]);
  });

  it('is refused without a region', async () => {
    await expect(accessTo(PLACE, {}, new VirtualClock())).rejects.toThrow(
      '--planner-fleets: the cluster gpu has no region, and AWS_REGION is not set',
    );
  });
});

const PLACE = { kind: 'eks', namespace: 'serving', name: 'gpu' } as const;

/** Runs with credentials in the environment, where the client of AWS looks for them first. */
async function withKeys<T>(run: () => Promise<T>): Promise<T> {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
  try {
    return await run();
  } finally {
    vi.unstubAllEnvs();
  }
}
