import { dirname } from 'node:path';
import { goCaches } from '../tools/kserve-go.ts';
import type { CodeBlock } from './blocks.ts';

/* Python and Go for the blocks of pages, as the set-up of the tests installs them. */

/** The shell function `protoc`. The whole compiler is in a package of Python. */
export const PROTOC = 'protoc() { python -m grpc_tools.protoc "$@"; }';

const NEEDS = [
  { variable: 'STATOR_TEST_TRITON', language: 'py', command: /^(python|pip|protoc) /m },
  { variable: 'STATOR_TEST_KSERVE_GO', language: 'go', command: /(^|&& )(go|protoc) /m },
] as const;

/** Whether the toolchain of the block is installed. If it is not, the test run reports that at its end. */
export function isRunnable({ language, text }: CodeBlock): boolean {
  return NEEDS.every(({ variable, language: needed, command }) => {
    const isNeeded = language === needed || (language === 'sh' && command.test(text));
    return !isNeeded || Boolean(process.env[variable]);
  });
}

/**
 * Returns the variables by which commands find the toolchains. The set-up has installed all that pages name, so no
 * command downloads anything.
 */
export function toolchainEnvironment(): Readonly<Record<string, string>> {
  const { STATOR_TEST_TRITON: python, STATOR_TEST_KSERVE_GO: go, PATH } = process.env;
  const folders = [...(python ? [dirname(python)] : []), ...(go ? [go] : []), PATH ?? ''];
  const offline = { GOPROXY: 'off', GONOSUMDB: '*', GONOSUMCHECK: '1', GOFLAGS: `${goCaches.GOFLAGS} -mod=mod` };
  return { ...goCaches, ...offline, PATH: folders.join(':') };
}
