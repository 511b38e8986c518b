// What the drivers share: one call per line from standard input, one line to standard output that says what the client saw.
// Calls run at once; a reply has the id of its call.

import { createInterface } from "node:readline";

/**
 * Answers every line with what `answer` makes of its call: a reply, or an error that becomes the reply's `failure`. Ends
 * with the input, when the last call has its reply.
 */
export async function answerLines(answer) {
  const running = [];
  for await (const line of createInterface({ input: process.stdin })) {
    const call = JSON.parse(line);
    const replied = answer(call)
      .catch((error) => ({ failure: String(error?.stack ?? error) }))
      .then((reply) => process.stdout.write(`${JSON.stringify({ id: call.id, ...reply })}\n`));
    running.push(replied);
  }
  await Promise.all(running);
}
