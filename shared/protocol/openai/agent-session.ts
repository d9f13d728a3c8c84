import type { ChatMessage, GenerationRequest } from '../generation/generation-request.ts';
import type { RequestHeaders } from './decode-context.ts';

type AgentContext = NonNullable<GenerationRequest['agentContext']>;

/** Headers by which one kind of client identifies its session. */
interface IdentityHeaders {
  readonly session: string;
  /** Header of a part of the session with a conversation of its own; the session is then its parent. */
  readonly child?: string;
  readonly parent: string;
}

/** Dynamo's own headers, then those of common coding agents; the first kind whose session header is present counts. */
const IDENTITIES: readonly IdentityHeaders[] = [
  { session: 'x-dynamo-session-id', parent: 'x-dynamo-parent-session-id' },
  {
    session: 'x-claude-code-session-id',
    child: 'x-claude-code-agent-id',
    parent: 'x-claude-code-parent-agent-id',
  },
  { session: 'thread-id', parent: 'x-codex-parent-thread-id' },
  { session: 'x-session-id', parent: 'x-parent-session-id' },
];
/** Header that ends the session, whichever header named it. */
const FINAL_HEADER = 'x-dynamo-session-final';
/** Length limit of an id; ids are stored with every session. */
const ID_CHARS_MAX = 256;

/** Session that a request belongs to. */
interface AgentSession {
  readonly sessionId: string;
  readonly parentSessionId: string | undefined;
  /** Whether this is the last request of the session. */
  readonly isFinal: boolean;
}

/** Returns the session that the request's headers name; undefined when they name none. */
export function decodeSession(headers: RequestHeaders): AgentSession | undefined {
  for (const identity of IDENTITIES) {
    const session = idIn(headers, identity.session);
    if (session === undefined) continue;
    const child = identity.child === undefined ? undefined : idIn(headers, identity.child);
    const parent = idIn(headers, identity.parent) ?? (child === undefined ? undefined : session);
    return {
      sessionId: child ?? session,
      parentSessionId: parent,
      isFinal: headers.header(FINAL_HEADER)?.trim().toLowerCase() === 'true',
    };
  }
  return undefined;
}

/**
 * Returns the agent context for a worker and for request records: the headers, which win, over `nvext.agent_context`.
 */
export function agentContextOf(
  session: AgentSession | undefined,
  given: AgentContext | null | undefined,
  lastMessage: Pick<ChatMessage, 'role'> | undefined,
): AgentContext | undefined {
  if (session === undefined) return given ?? undefined;
  return {
    ...given,
    session_id: session.sessionId,
    ...(session.parentSessionId === undefined ? {} : { parent_session_id: session.parentSessionId }),
    ...(session.isFinal ? { session_final: true } : {}),
    input_trigger: triggerOf(lastMessage),
  };
}

/** Returns what triggered the request. */
function triggerOf(lastMessage: Pick<ChatMessage, 'role'> | undefined): string {
  switch (lastMessage?.role) {
    case 'user':
      return 'user_message';
    case 'tool':
    case 'function':
      return 'tool_result';
    default:
      return 'other';
  }
}

function idIn(headers: RequestHeaders, name: string): string | undefined {
  const id = headers.header(name)?.trim();
  return id === undefined || id === '' || id.length > ID_CHARS_MAX ? undefined : id;
}
