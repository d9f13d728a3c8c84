import { X509Certificate } from 'node:crypto';
import { Client, credentials } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../../shared/clock/index.ts';
import { createSelfSigned } from '../../../../shared/frontends/picker/self-signed.ts';
import { decodeMessage, encodeMessage, HealthService, openGrpcServer } from '../../../../shared/grpc/index.ts';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
} from '../../../../shared/grpc/messages/generated/health_pb.js';
import { startPicker } from '../../../support/picker/picker-bed.ts';

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

/** Resolves with the status of a service: 1 = SERVING, 2 = NOT_SERVING. */
function check(client: Client, service: string): Promise<number> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check',
      (asked: string) => Buffer.from(encodeMessage(HealthCheckRequestSchema, { service: asked })),
      (bytes) => decodeMessage(HealthCheckResponseSchema, bytes).status as number,
      service,
      (error, status) => (error === null ? resolve(status as number) : reject(error)),
    );
  });
}

describe('the health of an endpoint picker', () => {
  it('follows its lifecycle under every name that gateways ask for', async () => {
    const picker = await startPicker({ stage: 'discovering' });
    const client = new Client(picker.address, credentials.createInsecure());
    opened.push(picker, client);
    const names = ['envoy.service.ext_proc.v3.ExternalProcessor', 'inference-extension', 'readiness'];
    for (const name of names) expect(await check(client, name)).toBe(2);
    expect(await check(client, 'liveness')).toBe(1);
    picker.lifecycle.discovered();
    for (const name of names) expect(await check(client, name)).toBe(1);
    await expect(check(client, 'other')).rejects.toMatchObject({ code: 5 });
  });
});

describe('a certificate that a process signs itself', () => {
  it('is valid, and encrypts a connection of gRPC', async () => {
    const { cert, key } = createSelfSigned('stator-endpoint-picker', Date.UTC(2026, 10, 29));
    const read = new X509Certificate(cert);
    expect(read.verify(read.publicKey)).toBe(true);
    expect(read.checkHost('stator-endpoint-picker')).toBe('stator-endpoint-picker');
    expect(Date.parse(read.validFrom)).toBeLessThan(Date.UTC(2026, 10, 29));
    expect(Date.parse(read.validTo)).toBeGreaterThan(Date.UTC(2036, 0, 1));
    const health = new HealthService(() => true);
    const parts = { methods: health.methods, clock: systemClock, random: systemRandom, tls: { cert, key } };
    const server = await openGrpcServer({ host: '127.0.0.1', port: 0, ...parts });
    const client = new Client(`127.0.0.1:${server.port}`, credentials.createSsl(Buffer.from(cert)), {
      'grpc.ssl_target_name_override': 'stator-endpoint-picker',
    });
    opened.push({ close: () => server.close(0) }, client);
    expect(await check(client, '')).toBe(1);
  });

  it('can be made in any year', () => {
    for (const year of [2026, 2039, 2040, 2060]) {
      const { validTo } = new X509Certificate(createSelfSigned('name', Date.UTC(year, 0, 1)).cert);
      expect(new Date(validTo).getUTCFullYear()).toBe(year + 9);
    }
  });
});
