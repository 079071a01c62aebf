"""Chat templates of the tiny checkpoints."""

from __future__ import annotations

from tandem.engine.text.template import CHATML

__all__ = ["CHATML", "THINKING_XML", "TOOL_CHATML"]

TOOL_CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}
                {{- call.function.arguments }}
            {%- else %}
                {{- call.function.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif message.role == 'user' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""ChatML with tools, calls in JSON form and reasoning, as Qwen's templates are."""

THINKING_XML = """\
{%- macro shown(content) %}
    {%- if content is string %}
        {{- content }}
    {%- else %}
        {%- for part in content or [] %}
            {%- if part.type == 'text' %}
                {{- part.text }}
            {%- else %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set asked = namespace(last=0) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- set asked.last = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- set system = shown(messages[0].content) if messages[0].role == 'system' else '' %}
{%- if tools or system %}
    {{- '<|im_start|>system\\n' }}
    {%- if tools %}
        {{- '# Functions\\n\\nThese can be called:\\n' }}
        {%- for tool in tools %}
            {{- tool | tojson + '\\n' }}
        {%- endfor %}
        {{- '\\nA call is written like this, every value between its own tags:\\n\\n<tool_call>\\n<function=NAME>\\n' }}
        {{- '<parameter=FIRST>\\nvalue\\n</parameter>\\n</function>\\n</tool_call>' }}
        {{- '\\n\\n' if system else '' }}
    {%- endif %}
    {{- system + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content and (preserve_thinking or loop.index0 > asked.last) %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- shown(message.content) }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n\\n' if loop.first and message.content else ('' if loop.first else '\\n') }}
            {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- if call.function.arguments is mapping %}
                {%- for name, value in call.function.arguments.items() %}
                    {{- '<parameter=' + name + '>\\n' }}
                    {{- value if value is string else value | tojson }}
                    {{- '\\n</parameter>\\n' }}
                {%- endfor %}
            {%- elif call.function.arguments %}
                {{- call.function.arguments + '\\n' }}
            {%- endif %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + shown(message.content) + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\\n' + shown(message.content) + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""As Qwen3.5's do: thinking is opened by the template, or closed at once; calls in XML form; images as placeholders."""
