"""What help, errors, warnings and findings say, in Chinese: looked up on their way out, so that nothing else knows of it.

What a command prints when all goes well stands in `agent_memory.CHINESE`, beside what prints it.
"""
from __future__ import annotations

import argparse
import re
from functools import lru_cache

import agent_memory as am

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# `{}` is a hole, `{_}` one for a single word; {0} and {1} where Chinese has another order.  Taken apart when it is needed.
TROUBLES = """
# argparse
usage ⇒ 用法
options ⇒ 选项
positional arguments ⇒ 参数
show this help message and exit ⇒ 显示帮助
show program's version number and exit ⇒ 显示版本
argument {}: {} ⇒ 参数 {}：{}
expected one argument ⇒ 缺少一个值
expected at most one argument ⇒ 最多一个值
expected at least one argument ⇒ 至少要一个值
the following arguments are required: {} ⇒ 缺少参数 {}
one of the arguments {} is required ⇒ 需要其中之一：{}
unrecognized arguments: {} ⇒ 不认识的参数：{}
ignored explicit argument {} ⇒ 它不带值，却给了 {}
not allowed with argument {} ⇒ 不能与 {} 同时使用
{} is no whole number ⇒ 应为整数，而不是 {}
{} is no count, 1 or more ⇒ 应为 1 或更大的整数，而不是 {}
{} is no count, 0 or more ⇒ 应为 0 或更大的整数，而不是 {}
invalid choice: {} (choose from {}) ⇒ 不能是 {}（可选：{}）
invalid choice: {}, maybe you meant {}? (choose from {}) ⇒ 不能是 {}，是否想写 {}？（可选：{}）
{} --help ⇒ 用法见 {} --help

# the system, JSON, regular expressions
the disk ⇒ 磁盘
standard input ⇒ 标准输入
standard input is not UTF-8 text ⇒ 标准输入不是 UTF-8 文本
No such file or directory ⇒ 文件或目录不存在
Permission denied ⇒ 权限不足
Operation not permitted ⇒ 不允许此操作
Is a directory ⇒ 这是一个目录
Not a directory ⇒ 不是目录
File exists ⇒ 文件已存在
File name too long ⇒ 文件名太长
Directory not empty ⇒ 目录非空
No space left on device ⇒ 磁盘空间不足
Disk quota exceeded ⇒ 超出磁盘配额
Read-only file system ⇒ 文件系统只读
Too many open files ⇒ 打开的文件太多
Input/output error ⇒ 读写错误
Bad file descriptor ⇒ 文件描述符无效
Device or resource busy ⇒ 设备或资源正忙
Connection refused ⇒ 连接被拒绝
Connection reset by peer ⇒ 连接被对方重置
Network is unreachable ⇒ 网络不可达
No route to host ⇒ 主机不可达
Name or service not known ⇒ 域名无法解析
nodename nor servname provided, or not known ⇒ 域名无法解析
Temporary failure in name resolution ⇒ 域名暂时无法解析
[Errno {}] {} ⇒ {1}（错误号 {0}）
[Errno {}] {}: {} ⇒ {2}：{1}（错误号 {0}）
{_} codec can't decode byte {} in position {}: {} ⇒ 不是 {0} 编码：第 {2} 字节是 {1}（{3}）
invalid start byte ⇒ 起始字节无效
invalid continuation byte ⇒ 后续字节无效
unexpected end of data ⇒ 意外结束
{}: line {} column {} (char {}) ⇒ {}：第 {} 行第 {} 列（第 {} 字符）
Expecting value ⇒ 缺少值
Expecting property name enclosed in double quotes ⇒ 缺少双引号括起的键
Expecting {} delimiter ⇒ 缺少 {}
Extra data ⇒ 结尾之后还有内容
Unterminated string starting at ⇒ 字符串没有结束
Invalid control character at ⇒ 含有控制字符
{} at position {} ⇒ {}（位置 {}）
missing ), unterminated subpattern ⇒ 缺少右括号
unterminated character set ⇒ 字符集没有结束
nothing to repeat ⇒ 没有可重复的内容
multiple repeat ⇒ 重复符号连用
unbalanced parenthesis ⇒ 括号不配对
bad escape {} ⇒ 转义无效：{}
No module named {} ⇒ 没有模块 {}
module {} has no attribute {} ⇒ 模块 {} 没有 {}

database is locked ⇒ 数据库正被占用
file is not a database ⇒ 文件不是数据库
database disk image is malformed ⇒ 数据库已损坏
unable to open database file ⇒ 打不开数据库文件
disk I/O error ⇒ 磁盘读写出错

# pages, rows, plain YAML
line {} ⇒ 第 {} 行
line {}: {} ⇒ 第 {} 行：{}
a row that is no object ⇒ 有一行不是对象
a row whose id is no id: {} ⇒ 有一行的 id 无效：{}
{} has no text ⇒ {} 没有正文
{_} is {} ⇒ {} 不能是 {}
no front matter ⇒ 没有头部（---）
the front matter has no end ⇒ 头部没有结束（---）
a line that is no `key: value`: {} ⇒ 有一行不是“键: 值”：{}
a quote that does not close: {} ⇒ 引号没有闭合：{}
this needs quotes: {} ⇒ 需要加引号：{}
a value that does not end as it begins: {} ⇒ 值的首尾不一致：{}
only lists may stand on one line: {} ⇒ 只有列表能写在一行：{}
a list that cannot be read: {} ⇒ 列表无法读取：{}
a tab; indent with blanks ⇒ 有制表符，请用空格缩进
it nests too deep ⇒ 嵌套过深
this line is indented less than what it belongs to ⇒ 这一行缩进不够
a list item among keys ⇒ 键中间夹着列表项
not `key: value`: {} ⇒ 不是“键: 值”：{}
{} is given twice (first in line {}) ⇒ {} 写了两次（先在第 {} 行）
this line is indented more than its neighbours ⇒ 这一行比相邻行缩进多

# settings
category_mapping.{}: there is no room {} ⇒ category_mapping.{}：没有房间 {}
rooms: {} ⇒ 房间：{}
{} is not UTF-8 text ⇒ {} 不是 UTF-8 文本
save it as UTF-8 ⇒ 请存为 UTF-8
one `key: value` a line, nested by two blanks ⇒ 每行一个“键: 值”，下一级缩进两个空格
{} is empty ⇒ {} 是空的
delete it to use the defaults, or write your settings into it ⇒ 删除它就用默认设置，或写入自己的设置
{} is a list, not settings ⇒ {} 是列表，不是设置
{}: unknown key {} ⇒ {}：没有设置项 {}
did you mean {}? ⇒ 是否想写 {}？
there are: {} ⇒ 可用的有：{}
{}: {} cannot be the name of a room ⇒ {}：{} 不能作房间名
letters, digits, _ and - ⇒ 只用字母、数字、_ 和 -
{}: {} has no retention_days ⇒ {}：{} 缺少 retention_days
a number of days, 1 or more ⇒ 天数，1 或更大
{}: {} must be auto, true or false ⇒ {}：{} 应为 auto、true 或 false
{}: {} is not the NAME_IN_CAPITALS of a key ⇒ {}：{} 应写密钥的变量名（大写）
the key itself belongs into the .env of the data root ⇒ 密钥本身写进数据目录的 .env
{}: {} must be {}, not {} ⇒ {}：{} 应为{}，而不是 {}
{}: {} must be {} or more, not {} ⇒ {}：{} 应为 {} 或更大，而不是 {}
{}: {} must be from {} to {}, not {} ⇒ {}：{} 应在 {} 到 {} 之间，而不是 {}
true or false ⇒ 布尔值（true 或 false）
a whole number ⇒ 整数
a number ⇒ 数
{}: {} must be text, not {} ⇒ {}：{} 应为文本，而不是 {}
{}: {} must hold texts only, not {} ⇒ {}：{} 里只能是文本，而不是 {}
suspicion.{} must be pairs of characters: each, and what it is taken for ⇒ suspicion.{} 应为成对的字符：原字符和它被当作的字符
a list ⇒ 列表
a map ⇒ 映射
{} or more ⇒ {} 或更大
from {} to {} ⇒ {} 到 {}
{}: retrieval.{} is accepted and does nothing ⇒ {}：retrieval.{} 可以写，但不起作用
{}: unknown grade {} ⇒ {}：没有等级 {}
grades: {} ⇒ 等级：{}
{}: {} must be a word in quotes ⇒ {}：{} 应为加引号的词
{} must be a map of {} ⇒ {} 应为含有这些键的映射：{}
{}: {} must be a {}, not {} ⇒ {}：{} 应为 {}，而不是 {}
{}: the label {} is not a small word such as api_key ⇒ {}：标签 {} 应为 api_key 这样的小写词
{}: not a regular expression: {} ⇒ {}：不是正则表达式：{}
the pattern is longer than 1000 characters ⇒ 模式超过 1000 个字符
an unbounded repeat stands inside another: write {1,40} for the inner one ⇒ 无界重复里套着无界重复：内层请写 {1,40}
the pattern matches the empty text ⇒ 模式能匹配空文本
unknown gate {}; there are {} ⇒ 没有门槛 {}；可用的有 {}
suspicion.rules[{}]: a rule has a label, and examples under either `blocks` or `flags` ⇒
    suspicion.rules[{}]：规则要有 label，例子写在 blocks 或 flags 之一下面
suspicion.rules[{}]: there is no list {} in suspicion.words ⇒ suspicion.rules[{}]：suspicion.words 里没有列表 {}
suspicion.rules: {} nests unbounded repeats ⇒ suspicion.rules：{} 里无界重复相套
write {1,40} inside ⇒ 内层请写 {1,40}
suspicion.rules: {} is not a regular expression: {} ⇒ suspicion.rules：{} 不是正则表达式：{}
suspicion.rules[{}]: patterns must be a list of texts ⇒ suspicion.rules[{}]：patterns 应为文本列表
put words such as no in quotes ⇒ no 这样的词要加引号
leave out what is empty or only stars ⇒ 请去掉空的或只有星号的项
{}: {} holds what is no regular expression: {} ⇒ {}：{} 里有的不是正则表达式：{}
digest.signs.{} holds what is no regular expression: {} ⇒ digest.signs.{} 里有的不是正则表达式：{}
quote each with '…' ⇒ 每一条都用 '…' 括起
digest.mode is {} ⇒ digest.mode 不能是 {}
auto, llm or rule ⇒ auto、llm 或 rule
retrieval.profile: {} ⇒ retrieval.profile 不能是 {}
profiles: memory, seed ⇒ 可选：memory、seed

# the store
index.json cannot be read: {} ⇒ index.json 无法读取：{}
another row stands where it was ⇒ 原处已是另一行
its pages in store/ hold the same; the next command reads it whole, and rebuilds it where that is needed ⇒
    store/ 里的页面内容相同；下一条命令会完整读取，需要时重建
its pages in {} hold the same; the next command rebuilds it ⇒ {} 里的页面内容相同；下一条命令会重建
AGENT_MEMORY_ENCRYPT is neither on nor off ⇒ AGENT_MEMORY_ENCRYPT 既不是 on 也不是 off
set it to one of them ⇒ 请设为其中之一
AGENT_MEMORY_VECTOR_BACKEND names no backend ⇒ AGENT_MEMORY_VECTOR_BACKEND 不是任何后端的名字
set it to one of: auto, {} ⇒ 请设为其中之一：auto, {}
AGENT_MEMORY_LANG names no language that is spoken here ⇒ AGENT_MEMORY_LANG 不是这里会说的语言
set it to en or zh ⇒ 请设为 en 或 zh
AGENT_MEMORY_ENCRYPT=on needs the cryptography package; writing unencrypted ⇒
    AGENT_MEMORY_ENCRYPT=on 需要 cryptography 包；本次未加密写入
the key does not open {} ⇒ 密钥打不开 {}
set AGENT_MEMORY_MASTER_KEY, or put back the .master_key it was written with ⇒
    请设置 AGENT_MEMORY_MASTER_KEY，或放回写入时用的 .master_key
the store is encrypted and the cryptography package is missing ⇒ 记忆库已加密，但缺少 cryptography 包
pip install {} ⇒ 请执行 pip install {}
pip install cryptography ⇒ 请执行 pip install cryptography
the master key is not a Fernet key ⇒ 主密钥不是 Fernet 密钥
32 bytes in URL-safe base64, 44 characters; one is made when encryption is first turned on without a key ⇒
    应为 32 字节的 URL 安全 base64，共 44 个字符；首次开启加密且没有密钥时会自动生成
{} is encrypted and its key is missing ⇒ {} 已加密，但密钥不见了
set AGENT_MEMORY_MASTER_KEY or put .master_key back; nothing was written ⇒
    请设置 AGENT_MEMORY_MASTER_KEY 或放回 .master_key；未写入任何内容
another process is writing to {} ⇒ 另一个进程正在写入 {}
tried for {} s; try again, or raise store.lock_seconds ⇒ 已等待 {} 秒；请重试，或调大 store.lock_seconds
hand edits were not looked at: {} ⇒ 未检查手工改动：{}
{} is damaged: the key opens the other files and not this one ⇒ {} 已损坏：密钥能打开其他文件，唯独打不开它
{} is a directory where a file of ours belongs ⇒ {} 是一个目录，占了我们文件的位置
move it away ⇒ 请把它移走
the last change cannot be undone: .undo.json cannot be read ⇒ 上一次改动无法撤销：.undo.json 无法读取
a change was cut short and .journal.json cannot be read; sync takes in the pages it wrote ⇒
    有一次改动中途中断，而 .journal.json 无法读取；sync 会收入它已写的页面
{} could not be read and is rebuilt ⇒ {} 无法读取，已重建
vectors.json: {} vectors could not be read and are made anew ⇒ vectors.json：{} 个向量无法读取，已重新生成
65,536 memories were made in one second ⇒ 一秒内已新建 65,536 条记忆
try again in a second ⇒ 一秒后再试
store/{}.md cannot be read: {} ⇒ store/{}.md 无法读取：{}
{} is a directory in the place of a page, and was left as it is ⇒ {} 是一个目录，占了页面的位置，已原样保留
store/{}.md cannot be read and was left as it is: {} ⇒ store/{}.md 无法读取，已原样保留：{}
store/{}.md: said_at cannot be read and was left out ⇒ store/{}.md：said_at 读不懂，已略去
{} and {} contradict each other ⇒ {} 与 {} 互相矛盾
verify one of them, or `conflicts --dismiss ID` lets both stand ⇒ 请只验证其中一条；或用 `conflicts --dismiss ID` 让两条并存
its id is {} ⇒ 它的 id 是 {}
it has no text ⇒ 没有正文
index.json was missing and was rebuilt from {} pages ⇒ index.json 不见了，已从 {} 个页面重建
index.json could not be read; rebuilt from its whole lines and the pages, memories: {}, the old file is {} ⇒
    index.json 无法读取；已由它完好的行和页面重建，共 {} 条记忆，旧文件存为 {}
forgotten on purpose, so left out: {} ⇒ 曾被主动遗忘，未收入：{}
forgotten on purpose, so left out: {}; `restore ID` brings one back ⇒ 曾被主动遗忘，未收入：{}；`restore ID` 可恢复其中一条
forgotten on purpose, so these pages in store/ are left out: {}; `forget ID` erases a page, `remember` keeps its words anew ⇒
    曾被主动遗忘，store/ 里的这些页面未收入：{}；`forget ID` 抹去页面，`remember` 可重新记住其内容
forgotten on purpose, there again, for an old index.json was put back, and erased again: {} ⇒
    曾被主动遗忘，因旧的 index.json 被放回而重现，已再次抹去：{}
forgotten on purpose, and in index.json again: {} ⇒ 曾被主动遗忘，又出现在 index.json 里：{}
store/{}.md: {} ⇒ store/{}.md：{}
{} memories without a page ⇒ {} 条记忆没有页面
no page to rebuild it from ⇒ 没有可用来重建的页面
mend that, or copy the newest of {} over index.json, or delete index.json to begin anew from the pages that are left ⇒
    请修好它，或用 {} 里最新的备份覆盖 index.json，或删除 index.json 从剩下的页面重新开始
{} cannot be read: {} ⇒ {} 无法读取：{}
what was forgotten is no list of hashes ⇒ forgotten 不是哈希列表
what was forgotten is hashed with another key, and this store has forgotten things of its own ⇒
    forgotten 的哈希用的是另一把密钥，而这个库自己也有遗忘记录
what was forgotten has no key ⇒ forgotten 缺少密钥
what was forgotten on purpose is no longer known: .tombstones.json cannot be read ⇒
    主动遗忘的记录已丢失：.tombstones.json 无法读取
it is no array ⇒ 不是数组
the state of the services was not kept: {} ⇒ 服务状态未保存：{}
what was forgotten may still stand in {}, as numbers: {}; delete that folder ⇒ 已遗忘的内容可能仍以数字形式留在 {}：{}；请删除该目录
vectors were not kept: {} ⇒ 向量未保存：{}
this recall was not counted: {} ⇒ 本次检索未计数：{}
{_} is not as it was written ⇒ {} 与写入时不同
nothing was lost; mend that and try again ⇒ 没有丢失任何内容；排除后再试
the answer could not be written: {} ⇒ 结果无法写出：{}
what the command was to change is changed; mend that, and look with `list` or `get` ⇒ 命令该改的都已改好；排除后用 list 或 get 查看
a fault of our own: {} in line {} ⇒ 程序自身的错误：{}，第 {} 行
please report it; AGENT_MEMORY_DEBUG=1 shows the whole, which may hold texts of yours ⇒
    请报告给我们；AGENT_MEMORY_DEBUG=1 可看全部细节，其中可能有你的文本

# doctor and audit
interrupted ⇒ 写入中断
a change was interrupted; the next command finishes it ⇒ 有一次改动被打断，下一条命令会完成它
damaged ⇒ 已损坏
there are pages and no index ⇒ 有页面，没有索引
leftover ⇒ 残留文件
a write was cut short here ⇒ 这里有一次写入没有完成
loose ⇒ 权限过宽
others may open it (mode {}) ⇒ 其他用户能打开（权限 {}）
others may open it (mode {}), and {} more ⇒ 其他用户能打开（权限 {}），另有 {} 项
the mode of {} was not changed: {} ⇒ {} 的权限未能修改：{}
page missing ⇒ 缺页面
the index has this memory ⇒ 索引里有这条记忆
page unreadable ⇒ 页面不可读
page renamed ⇒ 页面改名
it is the page of {}, and gets its name again ⇒ 它是 {} 的页面，会改回原名
store/{} is the page of {} and has its name again; a title can stand in its text ⇒
    store/{} 是 {} 的页面，已改回原名；标题可写在正文里
written again from the index, for they had no front matter: {} ⇒ 没有 front matter，已按索引重写：{}
what these pages said is in {}: {} ⇒ 这些页面原来的内容在 {}：{}
it says its id is {} ⇒ 里面写的 id 是 {}
page unknown ⇒ 多出的页面
the index does not have this memory ⇒ 索引里没有这条记忆
page edited ⇒ 页面已改
it differs from the index; `sync` takes in what it says ⇒ 与索引不一致；`sync` 会读入它的内容
this prune was not noted, so the next may ask for --force: {} ⇒ 这次淘汰未能记录，下一次可能要求 --force：{}
prune held ⇒ 淘汰被拒
{} of {} memories are due, more than half of the store, so `prune --yes` took none; look at `prune`, then `prune --yes --force` ⇒
    {1} 条记忆中有 {0} 条到期，超过一半，`prune --yes` 因此一条未动；先看 prune，再用 prune --yes --force
forgotten ⇒ 已遗忘
forgotten on purpose, so it is left out; `forget ID` erases it, `remember` keeps its words anew ⇒
    曾被主动遗忘，因此未收入；`forget ID` 抹去它，`remember` 可重新记住其内容
forgotten on purpose, there again: {}; `forget ID` erases a memory, `remember` with its words keeps it ⇒
    曾被主动遗忘，又出现了：{}；`forget ID` 抹去记忆，用原话 `remember` 则保留
conflict copy ⇒ 冲突副本
a copy of {}; merge it by hand and delete it ⇒ {} 的副本，请手工合并后删除
foreign note ⇒ 外来笔记
not ours; it is left alone ⇒ 不是我们的文件，不会动它
vectors stale ⇒ 向量过时
it cannot be read; its vectors are made anew ⇒ 无法读取；其中的向量会重新生成
{} vectors of memories that are gone ⇒ {} 个向量的记忆已不在
graph stale ⇒ 图谱过时
it differs from what the memories say ⇒ 与记忆内容不一致
unreadable ⇒ 不可读
it cannot be read; delete it when you no longer need it ⇒ 无法读取；不再需要时可删除
unmasked ⇒ 未脱敏
{} memories hold what today's rules mask ⇒ {} 条记忆含有现行规则会脱敏的内容
the last change holds what today's rules mask; --fix lets it go ⇒ 上一次改动的记录含有现行规则会脱敏的内容；--fix 会清除它
today's rules mask something here: {} ⇒ 现行规则会在此脱敏：{}
today's rules mask something here: again ⇒ 现行规则会在此再次脱敏
a conversation holds what today's rules mask ⇒ 对话存档含有现行规则会脱敏的内容
odd date ⇒ 日期异常
no room ⇒ 没有房间
{}; it is kept whatever its age ⇒ {}；不论多旧都会保留
its date cannot be read: {} ⇒ 日期无法读取：{}
its page cannot be read: {} ⇒ 页面无法读取：{}
its date lies in the future: {} ⇒ 日期在未来：{}
cron failed ⇒ 沉淀失败
its last run said: {} ⇒ 上次运行报告：{}
its last run said: interrupted ⇒ 上次运行被中断
cron silent ⇒ 沉淀未运行
its last run was {} days ago ⇒ 上次运行是 {} 天前
empty ⇒ 空
there is no memory yet ⇒ 还没有记忆
there is no memory yet in {} ⇒ {} 里还没有记忆
unverified for {} days (limit {}) ⇒ {} 天未验证（上限 {}）
recalled {} times in {} days (fewer than {} in {}) ⇒ {1} 天内被检索 {0} 次（{3} 天不足 {2} 次）
{} days old ({} keeps {}) ⇒ 已有 {} 天（{} 保留 {} 天）

# services
{}: the answer is not JSON ⇒ {}：返回的不是 JSON
{}: no whole answer within {} s ⇒ {}：{} 秒内没有完整返回
raise `seconds`, or try again later ⇒ 请调大 seconds，或稍后再试
the url of a service is a whole http(s) address without user and password ⇒
    服务的 url 应为完整的 http(s) 地址，不含用户名和密码
http to {} shows texts and key to the network ⇒ 用 http 连接 {} 会让文本和密钥暴露在网络上
use https, or set `allow_http: true` ⇒ 请用 https，或设 allow_http: true
a key holds a character that cannot be sent ⇒ 密钥里有无法发送的字符
copy it again, without blanks or line ends ⇒ 请重新复制，不要带空格或换行
{}: the answer is larger than 64 MB ⇒ {}：返回超过 64 MB
{}: the answer broke off ⇒ {}：返回中途断开
check the network, and `url` ⇒ 请检查网络和 url
{}: HTTP {} ⇒ {}：HTTP {}
{}: HTTP {}, a redirect, refused ⇒ {}：HTTP {}，拒绝重定向
set `url` to where the service now lives ⇒ 请把 url 改为服务的现址
{}; it said: {} ⇒ {}；对方说：{}
try again later ⇒ 请稍后再试
the key is wrong or has expired ⇒ 密钥错误或已过期
the key may not use this service or model ⇒ 密钥无权使用此服务或模型
check `url` and `model` ⇒ 请检查 url 和 model
send less at once: lower `batch` ⇒ 一次少发一些：调小 batch
too many calls: wait a little ⇒ 请求过多：稍等片刻
the answer has no list `{}` ⇒ 返回里没有列表 {}
asked for {} results, got {}, or not one for each ⇒ 要 {} 个结果，得到 {} 个，或不是一一对应
the answer holds something that is no finite number ⇒ 返回里有不是有限数的值
asked for {} scores, got {} ⇒ 要 {} 个分数，得到 {} 个
asked for {} vectors, got {} ⇒ 要 {} 个向量，得到 {} 个
vectors of unequal sizes: {} ⇒ 向量长度不一：{}
vectors of unequal sizes: {}, and {} for the question ⇒ 向量长度不一：{}，问题的是 {}
resting until {}: {} ⇒ 休息到 {}：{}
{} is resting until {}: {} ⇒ {} 休息到 {}：{}
name {} outright to try it now ⇒ 直接指定 {} 可立即再试
vectors: no backend is called {} ⇒ vectors：没有后端 {}
backends: auto, {} ⇒ 后端：auto, {}
vectors.order: no backend has its key ⇒ vectors.order：没有一个后端有密钥
add `local`, which needs none ⇒ 请加上 local，它不需要密钥
unknown {} ⇒ 没有设置项 {}
a setting is missing ⇒ 缺少设置项
settings: kind, {} ⇒ 可用的设置：kind, {}
{}.key is not a NAME_IN_CAPITALS ⇒ {}.key 应写变量名（大写）
{}: {} is not set ⇒ {}：{} 未设置
set {} in the environment or in the .env of the data root ⇒ 请在环境变量或数据目录的 .env 里设置 {}
unknown kind {} ⇒ 没有种类 {}
kinds: {}, or package.module:Class ⇒ 种类：{}，或 package.module:Class
{} is not answering, local likeness is used: {} ⇒ {} 没有应答，改用本地相似度：{}
not reranked: {} ⇒ 未精排：{}
it rests until {}: {} ⇒ 休息到 {}：{}
the language model did not answer, rules were used: {} ⇒ 语言模型没有应答，改用规则：{}
{} is not set, rules were used ⇒ 未设置 {}，改用规则
the model's reply {} ⇒ 模型的回复{}
nothing of it was kept ⇒ 未保存其中任何内容
has no choices ⇒ 没有 choices
is empty ⇒ 为空
is not JSON ⇒ 不是 JSON
is not valid JSON ⇒ 不是有效的 JSON
holds more than one JSON value ⇒ 含有不止一个 JSON 值
does not hold one list of facts ⇒ 不是恰好一个要点列表
does not hold a list of facts ⇒ 没有要点列表

# verbs
there is no category {} ⇒ 没有类别 {}
categories: {} ⇒ 类别：{}
seq is no whole number ⇒ seq 不是整数
importance is no whole number from 1 to 10 ⇒ 重要性应为 1 到 10 的整数
{_} holds a value of another kind ⇒ {} 的值类型不对
verified is true or false, and a source is text ⇒ verified 应为 true 或 false，source 应为文本
said_at is no time ⇒ said_at 不是时间
within {} days ⇒ within 不能是 {} 天
a whole number from 0 to 366 ⇒ 0 到 366 的整数
within DAYS only tells what will leave ⇒ within 天数 只用来查看将离开的
leave it out to let go what is due today ⇒ 不写它，就清走今天到期的
said_at lies ahead: {} ⇒ said_at 还没到：{}
it would be the newest until then; leave it out, or mend the year ⇒ 到那时之前它会一直最新；请去掉，或改正年份
such as 2026-08-17T10:00:00+00:00 ⇒ 例如 2026-08-17T10:00:00+00:00
there is nothing to remember: the text is empty ⇒ 没有可记的内容：文本为空
there is no text ⇒ 没有给出文本
give the text, --file F, or - to read it ⇒ 请给出文本、--file F，或用 - 从标准输入读取
`list` takes --since and --until, too, and shows all of those days ⇒ `list` 也接受 --since 和 --until，并列出那些天的全部记忆
retrieval.days: {} ⇒ retrieval.days：{}
local, utc, or a distance from it such as +08:00 ⇒ 可用 local、utc，或与 UTC 的时差如 +08:00
the source is empty ⇒ 来源为空
name what the memories came from ⇒ 请写明记忆的来源
nothing came from {} ⇒ 没有来自 {} 的记忆
get shows where a memory comes from ⇒ get 可看一条记忆的来源
the last change was a forget: what it erased cannot come back ⇒ 上一次改动是遗忘：抹去的内容无法恢复
there is nothing to undo ⇒ 没有可撤销的改动
undo takes back the last change only ⇒ undo 只撤销上一次改动
{} could be {} memories ⇒ {} 对应 {} 条记忆
say more of it: {} ⇒ 请写得更完整：{}
there is no memory {} ⇒ 没有记忆 {}
list shows the ids; `restore ID` brings back what a prune took ⇒ list 可看所有 id；淘汰的可用 restore ID 找回
archives: {} ⇒ 归档：{}
archives: none ⇒ 没有归档
nothing lies between {} and {} ⇒ {} 到 {} 之间没有日子
since is the earlier of both ⇒ --since 应早于 --until
{} is no day ⇒ {} 不是日期
such as 2026-08-17, 2026-08, yesterday, Friday, 3 days ago, 上周 ⇒ 例如 2026-08-17、2026-08、昨天、周五、3天前、上周
top_k is {} ⇒ top_k 不能是 {}
a whole number, 1 or more ⇒ 应为 1 或更大的整数
the question is empty ⇒ 问题为空
say what you are looking for ⇒ 请写明要找什么
there is no room {} ⇒ 没有房间 {}
it is not JSON ⇒ 不是 JSON
it has no `text` ⇒ 没有 text
it is no object: a row is one JSON object on a line of its own ⇒ 不是对象：每行应是一个 JSON 对象
config.yaml has no room {}; the memory is found all the same ⇒ config.yaml 中没有房间 {}；这条记忆仍可检索到
unknown field {} ⇒ 没有字段 {}
it was forgotten on purpose ⇒ 这条记忆曾被主动遗忘
created_at is no time such as 2026-08-17T10:00:00+00:00 ⇒ created_at 不是时间，应如 2026-08-17T10:00:00+00:00
{} is there already with other contents; import --yes replaces it ⇒ {} 已存在且内容不同；import --yes 会替换它
its {} cannot be right ⇒ {} 不合理
at most {} facts ⇒ 要点上限不能是 {}
1 or more ⇒ 1 或更大
no memory speaks of {} ⇒ 没有记忆提到 {}
graph lists the entities ⇒ graph 可列出实体
the limit is {} ⇒ 上限不能是 {}
text is wanted, not {} ⇒ 应为文本，而不是 {}
it is no line such as {"query": "which port", "expected": ["mem_…"]} ⇒
    应为这样的一行：{"query": "哪个端口", "expected": ["mem_…"]}
give the text or --file, not both ⇒ 文本和 --file 只能给一个
check the path ⇒ 请检查路径
convert it, for instance with iconv ⇒ 请先转换编码，例如用 iconv
--project is empty ⇒ --project 为空
name a project, or --all ⇒ 请写项目名，或用 --all
name a project, or leave --project out ⇒ 请写项目名，或去掉 --project
say what to change ⇒ 请写明要改什么
a text, --category, --importance or --project ⇒ 新文本、--category、--importance 或 --project
{} of {} memories would be removed, more than half of the store ⇒ {1} 条记忆中有 {0} 条将被淘汰，超过一半
look at `prune`; where neither the clock nor a setting is wrong, `prune --yes --force` does it ⇒
    先看 prune；若时钟和设置都没有错，prune --yes --force 才会执行
name a memory, or --source S ⇒ 请写明一条记忆，或 --source S
{} of {} memories would be erased, more than half of the store ⇒ {1} 条记忆中有 {0} 条将被抹去，超过一半
`forget --source S --yes --force` does it ⇒ forget --source S --yes --force 才会执行
line {} is no {"id", "text"} ⇒ 第 {} 行不是 {"id", "text"}
one JSON object a line ⇒ 每行一个 JSON 对象
--root is empty ⇒ --root 为空
name a directory, or leave --root out ⇒ 请写目录名，或去掉 --root
there is no memory in {} ⇒ {} 里没有记忆库
check --root; `init` or `remember` makes a new one ⇒ 请检查 --root；init 或 remember 可新建
there is no command {} ⇒ 没有命令 {}
`{}` needs the package agent_memory_extras, which is not beside agent_memory.py ⇒
    {} 需要 agent_memory_extras 包，它不在 agent_memory.py 旁边
copy that folder and auto_sediment.py too, or pip install the project ⇒
    请把该目录和 auto_sediment.py 一并复制过来，或用 pip 安装本项目
say what to do ⇒ 请写明要做什么
--help lists the commands ⇒ --help 可列出所有命令

# help
Long-term memory for any agent. ⇒ 给任何智能体的长期记忆。
the data root ⇒ 数据目录
one JSON document ⇒ 输出一个 JSON 文档
language of messages ⇒ 界面语言
the text; - reads standard input ⇒ 文本；- 表示从标准输入读取
read the text from a file ⇒ 从文件读取文本
an id, a unique part of one (4 characters or more), or a page's name ⇒ id、其中唯一的一段（至少 4 个字符），或页面名
an id, or the name of an archive, as `prune` told them ⇒ id 或归档名，prune 时都显示过
the new category ⇒ 新类别
the new importance; 10 stays for ever ⇒ 新的重要性；10 永久保留
the new project; '' for none ⇒ 新的项目；'' 表示不属于任何项目
only this room ⇒ 只看这个房间
only what nobody has verified ⇒ 只列没人验证的
at most this many ⇒ 最多几条
characters of recalled text to show in all ⇒ 一共显示多少字符
preference, decision, config, project, event, discussion, idea or general (default) ⇒
    preference、decision、config、project、event、discussion、idea 或 general（默认）
10 stays for ever (default 5) ⇒ 10 永久保留（默认 5）
somebody has checked it ⇒ 已有人核实
where it comes from ⇒ 来源
the project it belongs to ⇒ 所属项目
Keep a text. ⇒ 记住一段文本。
only what belongs to P or to no project (default: $AGENT_MEMORY_PROJECT) ⇒
    只看属于 P 或不属于任何项目的（默认 $AGENT_MEMORY_PROJECT）
only what belongs to P or to no project (default: $AGENT_MEMORY_PROJECT, with --write else that of the file's folder) ⇒
    只看属于 P 或不属于任何项目的（默认 $AGENT_MEMORY_PROJECT；用 --write 时否则取该文件所在目录的项目）
whatever project it belongs to ⇒ 不分项目
leave counts alone ⇒ 不计使用次数
said (made, where nothing tells) or speaking of then or later: 2026-08-17, 2026-08, yesterday, 上周 ⇒
    当天或之后说的（不知何时说的按创建日）或谈到的：2026-08-17、2026-08、昨天、上周
… or earlier ⇒ 当天或之前
tell what made each score, and what was cut ⇒ 说明每个分数从哪来、什么被挡下
Find memories by words and by meaning. ⇒ 按词和语义查找记忆。
Find memories by meaning alone, with their cosine. ⇒ 只按语义查找，给出余弦值。
Confirm memories by hand: one, or several in one change. ⇒ 人工确认记忆：一条，或一次确认几条。
the new text; - reads standard input ⇒ 新文本；- 表示从标准输入读取
Change the words, the category, the importance or the project of a memory. ⇒ 修改一条记忆的文本、类别、重要性或项目。
only tell ⇒ 只预览
do it without asking ⇒ 不询问，直接执行
with --source: do it without asking; one id is never asked about ⇒ 与 --source 同用：不询问，直接执行；单个 id 从不询问
also more than half of the store ⇒ 超过一半也执行
Let go what nobody verified, uses or needs any more; archived first. ⇒ 淘汰没人验证、不再使用或过期的记忆；先归档。
all that came from S ⇒ 来自 S 的全部
Erase a memory for good, or all from a source; backups and archives included. ⇒
    彻底抹去一条记忆，或某一来源的全部，含备份和归档。
keep what was found ⇒ 保存找到的要点
at most this many facts, the most important ⇒ 最多几条，取最重要的
Find what is worth remembering in a text or a conversation. ⇒ 从文本或对话中找出值得记住的要点。
a name; without one, the names most memories hold ⇒ 名称；不写则列出最常提到的
how many (default 20) ⇒ 多少个（默认 20）
make the graph anew first ⇒ 先重建图谱
Show the entities memories speak of, or the memories of one. ⇒ 列出记忆提到的实体，或某个实体的记忆。
Count what there is. ⇒ 统计现有内容。
List the rooms, how long they keep things, and what is in them. ⇒ 列出房间、保留天数和记忆条数。
Show the vector backends, the breaker and the reranker. ⇒ 查看向量后端、熔断器和精排。
only the newest N ⇒ 只列最新的 N 条
only what tries to command whoever reads it ⇒ 只列试图命令读者的
List memories, newest first. ⇒ 列出记忆，新的在前。
Show one memory whole. ⇒ 完整显示一条记忆。
Bring back what a prune took: one memory, or a whole archive. ⇒ 找回淘汰的：一条记忆，或整份归档。
Take back the last change; twice does it again. ⇒ 撤销上一次改动；再撤销一次即重做。
Show every wording a memory had. ⇒ 列出一条记忆的历次内容。
let it and what contradicts it stand side by side ⇒ 让它与矛盾的记忆并存
only tell what will leave in so many days, the soonest first ⇒ 只列出这些天内将离开的，最早的在前
List the memories that contradict another. ⇒ 列出互相矛盾的记忆。
mend what is safe to mend ⇒ 修复可安全修复的部分
Look for drift, loose modes, odd dates, unread logs and a silent cron job; exit code 1 when something is wrong. ⇒
    检查文件是否一致、权限是否过宽、日期是否异常、日志是否没人读、定时任务是否停了；有问题时退出码为 1。
Read everything that was kept again with today's masking rules. ⇒ 用现行脱敏规则重读已保存的一切。
Take in pages that were edited by hand, all of them looked at. ⇒ 读入手工改过的页面，逐页检查。
Print the whole store as JSON lines. ⇒ 以 JSON 行导出整个记忆库。
JSON lines, as export writes them or with `text`; - reads standard input ⇒
    JSON 行，export 写出的或含 text 的；- 表示从标准输入读取
keep near duplicates apart, as in transcripts ⇒ 相近的不合并，用于逐字记录
overwrite memories that are there with other contents ⇒ 覆盖已有但内容不同的记忆
Take in memories from a file. ⇒ 从文件导入记忆。
JSON lines of {"query", "expected": [ids], "kind"}; - reads standard input ⇒
    JSON 行 {"query", "expected": [ids], "kind"}；- 表示从标准输入读取
Score how well this store answers your own questions. ⇒ 用你自己的问题给这个记忆库打分。
lines of {"id","text"} in and out ⇒ 输入输出都是 {"id","text"} 行
Mask the secrets of a text and print it; nothing is kept. ⇒ 脱敏一段文本并输出，不保存。
Say whether a text tries to command whoever reads it; nothing is kept. ⇒ 判断一段文本是否试图命令读者，不保存。
Make the data root, with a settings file to fill in. ⇒ 建立数据目录和待填写的设置文件。

# agent_memory_extras
Print what an agent should know before it begins, or write it between markers into a file. ⇒
    输出智能体开始前该知道的内容，或写入文件的标记之间。
Show the turns of a conversation that a memory comes from. ⇒ 显示一条记忆出自哪几轮对话。
Answer an agent's hook: an event on standard input, what it should know on standard output. ⇒
    应答智能体的钩子：标准输入是事件，标准输出是它该知道的内容。
Serve the Model Context Protocol on standard input and output. ⇒ 在标准输入输出上提供 MCP 服务。
Tell an agent about this memory: hooks, MCP entry, skill. ⇒ 把记忆接入智能体：钩子、MCP 条目、技能。
Have session logs digested by cron or by a systemd timer. ⇒ 由 cron 或 systemd 定时沉淀会话日志。
what it is about; without it, what matters always ⇒ 主题；不写则输出始终重要的内容
only what belongs to P or to no project ⇒ 只看属于 P 或不属于任何项目的
characters at most (context.chars) ⇒ 最多多少字符（context.chars）
put it between markers into FILE: AGENTS.md, CLAUDE.md … ⇒ 写入 FILE 的标记之间：AGENTS.md、CLAUDE.md 等
take it out of FILE ⇒ 从 FILE 中移除
--write or --remove, not both ⇒ --write 和 --remove 只能用一个
{} is not UTF-8 text, and was left alone ⇒ {} 不是 UTF-8 文本，未改动
nothing was changed ⇒ 未做任何改动
{}: {} and {} do not stand there once each ⇒ {}：{} 和 {} 应各出现一次
mend the file by hand, or take them out ⇒ 请手工修好文件，或删掉这些标记
an encoder's model needs the package {} ⇒ 编码器的模型需要 {} 包
an encoder's path: {} {} ⇒ 编码器的路径：{} {}
is no model ⇒ 不是模型
does not exist ⇒ 不存在
a model of model2vec or sentence-transformers, or ONNX with a tokenizer.json; none is downloaded ⇒
    model2vec 或 sentence-transformers 的模型，或带 tokenizer.json 的 ONNX；不会自动下载
{} cannot be loaded ⇒ {} 无法加载
{} failed ⇒ {} 出错
{} gives {} numbers, not {}: set `dimensions` to what it gives ⇒ {} 给出 {} 个数，而不是 {}：请相应设置 dimensions

turns before and after, too (1) ⇒ 前后各多显示几轮（1）
the log, where it is not in its usual place ⇒ 日志文件，不在原处时用
characters of a turn to show ⇒ 每轮最多显示多少字符
agent ⇒ 智能体
timer ⇒ 定时
last run ⇒ 上次运行
logs vanish ⇒ 日志会消失
integrated; it has no session yet ⇒ 已接入；还没有会话
{} sessions, {} with something new ⇒ {} 个会话，{} 个有新内容
{} turns ⇒ {} 轮
deletes its logs after {} days (cleanupPeriodDays) ⇒ {} 天后会删除日志（cleanupPeriodDays）
{}; one that was never read is {} days old: auto_sediment.py --all --apply ⇒
    {}；有一个从未读过的已有 {} 天：auto_sediment.py --all --apply
logs are read by themselves ⇒ 日志会自动读取
nothing reads logs by itself: schedule install ⇒ 没有自动读取日志：schedule install
{} sessions, {} memories added ⇒ {} 个会话，新增 {} 条记忆
the pages in store/ hold the same ⇒ store/ 里的页面内容相同
{} ({}) ⇒ {}（{}）
{} is JSON, but no object ⇒ {} 是 JSON，但不是对象
{} names {} under {} ⇒ {0} 的 {2} 下写着 {1}
take that out by hand ⇒ 请手动移除
{} was changed by another program meanwhile ⇒ {} 刚被其他程序改过
{} is no plain file ⇒ {} 不是普通文件
{} cannot be named in settings of others ⇒ {} 不能写进其他程序的设置
choose a folder without such characters in its name ⇒ 请换一个名称里没有这类字符的目录
mend the file by hand ⇒ 请手动修好该文件
{}: a key stands twice in one object ⇒ {}：同一对象里有重复的键
take one of them out by hand ⇒ 请手动去掉其中一个
{} is not plain JSON{}: comments would be lost ⇒ {} 不是纯 JSON{}：改写会丢掉注释
add the lines by hand ⇒ 请手动加入这些行
an event of more than 1 MB was left alone ⇒ 事件超过 1 MB，未处理
whose events it answers (auto: each one's) ⇒ 应答哪个智能体的事件（auto：都应答）
what Codex appends to `notify`; standard input is not read then ⇒ Codex 附在 notify 后的内容；此时不读标准输入
that is no event ⇒ 这不是事件
an agent sends a JSON object ⇒ 智能体发来的应是 JSON 对象
auto_sediment.py is not beside agent_memory.py ⇒ auto_sediment.py 不在 agent_memory.py 旁边
pip install the project, or copy it there ⇒ 请用 pip 安装本项目，或把它复制过来
claude-code, codex, gemini, opencode, dsh, hermes, or all that are here ⇒
    claude-code、codex、gemini、opencode、dsh、hermes，或 all（本机所有）
only show what would be written (default) ⇒ 只显示将写入的内容（默认）
write it; the old files are kept beside the new ⇒ 写入；旧文件在旁边留一份
take out what is ours ⇒ 移除我们写入的内容
claude-code: the MCP entry into DIR/.mcp.json ⇒ claude-code：把 MCP 条目写入 DIR/.mcp.json
no hooks (hermes: no provider) ⇒ 不装钩子（hermes：不装 provider）
no MCP entry ⇒ 不写 MCP 条目
no skill ⇒ 不装技能
{}: its "hooks" are not events with lists of hooks ⇒ {}：其中的 "hooks" 不是“事件：钩子列表”的形式
{}: its {} is no object ⇒ {}：其中的 {} 不是对象
{} has a server {} of your own ⇒ {} 里已有你自己的服务 {}
rename it, then try again ⇒ 请先改名，再试
{} has its own [mcp_servers.{}] ⇒ {} 里已有 [mcp_servers.{}]
{} has [mcp_servers.{}] in a form we do not know ⇒ {} 里的 [mcp_servers.{}] 写法不认识
change it by hand ⇒ 请手动修改
{}: its mcp_servers is no table ⇒ {}：其中的 mcp_servers 不是表
{} is not a YAML list with its items at the margin ⇒ {} 不是顶格书写的 YAML 列表
{} is a YAML list that is indented ⇒ {} 是带缩进的 YAML 列表
{} has a key {} of your own ⇒ {} 里已有你自己的键 {}
put our line under it by hand ⇒ 请手动把我们的行加到它下面
{} is not a plain YAML mapping ⇒ {} 不是普通的 YAML 映射
{} was not written by us ⇒ {} 不是我们写的
move it away, then try again ⇒ 请先移走，再试
one of --print, --write and --remove ⇒ --print、--write、--remove 只能用一个
which agent? ⇒ 哪个智能体？
{}, or all that are here ⇒ {}，或 all（本机所有）
there is no agent {} that we know ⇒ 没有已知的智能体 {}
agents: {}, all ⇒ 智能体：{}、all
integrate ⇒ 接入
{} is no TOML that can be added to: {} ⇒ {} 不是可以追加的 TOML：{}
{} is no JSON ⇒ {} 不是 JSON
a pipe to a program that helps was closed ⇒ 与辅助程序的管道已关闭
call again ⇒ 请再调用一次
--every {} cannot be kept by a clock ⇒ --every {} 无法按时钟整除
minutes that divide an hour or hours that divide a day: 15m, 6h ⇒ 应为能整除一小时的分钟数，或能整除一天的小时数：15m、6h
install, status or remove ⇒ install、status 或 remove
how often logs are read: minutes (m) or hours (h) ⇒ 多久读一次日志：分钟（m）或小时（h）
auto: systemd where it answers, else cron ⇒ auto：systemd 可用就用它，否则用 cron
crontab -l failed: {} ⇒ crontab -l 失败：{}
crontab refused the new lines: {} ⇒ crontab 没有接受新内容：{}
schedule ⇒ 定时任务
schedule what? {} ⇒ schedule 要做什么？{}
it has not run yet ⇒ 还没有运行过
no job is installed: schedule install ⇒ 没有安装定时任务：schedule install
both cron and systemd run it: schedule install keeps one ⇒ cron 和 systemd 都在运行：schedule install 会只留一个
a timer does not run: schedule install starts it ⇒ 有定时器没有运行：schedule install 会启动它
the last run was long ago: {} ⇒ 上次运行已是很久以前：{}
the last run failed: {} ⇒ 上次运行失败：{}
{} is gone: schedule install names the one of today ⇒ {} 已不存在：schedule install 会改用现在的
it serves another memory: {} ⇒ 它服务的是另一个记忆库：{}
neither systemd nor cron answers here ⇒ 这里 systemd 和 cron 都不可用
exit code {} ⇒ 退出码 {}

# auto_sediment
Turn session logs into memories, each turn once. ⇒ 把会话日志沉淀成记忆，每轮只读一次。
the newest session (default) ⇒ 最新的会话（默认）
this log if it is there and has news; for hooks ⇒ 指定日志，在且有新内容才读；供钩子使用
only sessions of this agent; repeatable ⇒ 只读该智能体的会话，可重复
not what agents keep but every log below DIR; repeatable ⇒ 不读智能体自己的目录，而读 DIR 下的所有日志，可重复
only sessions that worked in CWD or below ⇒ 只读在 CWD 或其下工作的会话
keep the digested turns for `source` (default: digest.archive) ⇒ 保存读过的对话，供 source 查看（默认见 digest.archive）
every session, oldest first ⇒ 全部会话，旧的在前
this log or session directory; repeatable ⇒ 指定日志或会话目录，可重复
keep what is found ⇒ 保存找到的要点
only show it (default) ⇒ 只预览（默认）
keep the facts as verified ⇒ 存为已验证
read what sub-agents were told, too ⇒ 子智能体的会话也读
read no further once N facts were found; the rest waits ⇒ 找到 N 条要点后不再读，余下的留到下次
one JSON document on stdout, notes on stderr ⇒ 标准输出只有一个 JSON 文档，提示写到标准错误
say nothing but errors ⇒ 只报告错误
may this user read it? ⇒ 当前用户有读取权限吗？
is it there, and may this user read it? ⇒ 目录是否存在？当前用户有读取权限吗？
zstd logs cannot be read: no compression.zstd (Python 3.14), no zstandard package, no zstd command ⇒
    无法读取 zstd 日志：没有 compression.zstd（Python 3.14）、zstandard 包或 zstd 命令
any of the three will do: pip install zstandard, or install zstd ⇒ 三者有一即可：pip install zstandard，或安装 zstd
{}: no conversation was recognised{} ⇒ {}：没有认出任何对话{}
{}: a database, but of no agent that is known ⇒ {}：是数据库，但不属于任何已知的智能体
known: opencode.db, state.db of Hermes ⇒ 已知：opencode.db、Hermes 的 state.db
{}: no session {} ⇒ {}：没有会话 {}
name another file ⇒ 请指定其他文件
--{} names a log and --dir looks for some ⇒ --{} 是指定日志，--dir 是查找日志
one or the other ⇒ 两者只能选一
{}: this Python has no sqlite3 ⇒ {}：这个 Python 没有 sqlite3
a Python with sqlite3 reads it ⇒ 换一个带 sqlite3 的 Python 即可读取
is an agent writing to it? the next run tries again ⇒ 是否有智能体正在写入？下次运行会再试
known formats: {} ⇒ 已知格式：{}
{}: no session log there ⇒ {}：这里没有会话日志
name a log file or a session directory ⇒ 请指定日志文件或会话目录
"""


def in_chinese(text: str) -> str:
    """A finished English message in Chinese, as far as the tables know it; what they do not know stays as it is."""
    tables, quotes = troubles() | am.CHINESE, list[str]()
    if text in tables:
        return tables[text]

    def aside(quote: re.Match[str]) -> str:                  # what is quoted is the user's, whatever it says
        quotes.append(quote[0])
        return f"\0{len(quotes) - 1}\0"

    said = _rendered(re.sub(_OTHERS_WORDS, aside, text.replace("\0", "")), tables, {})[1]
    return re.sub(r"\0(\d+)\0", lambda mark: quotes[int(mark[1])], said)


# As repr() writes it, perhaps cut.  An apostrophe stands behind a letter; our own messages hold "double quotes".
_OTHERS_WORDS = r"""(?<!\w)(?:'(?:[^'\\]|\\.)*(?:'|$)|"[^"]*'[^"]*(?:"|$))"""


@lru_cache(1)
def troubles() -> dict[str, str]:
    """The table: English, with its holes, → Chinese."""
    return dict(re.findall(r"^(.+?) ⇒\s+(.+)$", TROUBLES, re.MULTILINE))


def _rendered(text: str, tables: Mapping[str, str], known: dict[str, tuple[int, str]]) -> tuple[int, str]:
    """The reading of a message that explains most of its letters: how many, and the Chinese.

    A hole, and either side of a colon, may hold another message; a single word is a name.
    """
    if text in known or " " not in text:
        return known.get(text, (0, text))
    best = known[text] = (0, text)
    for english, chinese in tables.items():
        pieces, pattern = _form(english)
        if all(map(text.__contains__, pieces)) and (match := re.fullmatch(pattern, text, re.DOTALL)):
            holes = [_rendered(hole, tables, known) for hole in match.groups()]
            letters = sum(map(len, pieces)) + sum(count for count, _ in holes) - 2       # rather one message than two
            if letters > best[0]:
                best = letters, _filled(chinese, [hole for _, hole in holes])
    for joint in re.finditer("[:;] ", text):
        few, before = _rendered(text[:joint.start()], tables, known)
        more, after = _rendered(text[joint.end():], tables, known)
        if few + more > best[0]:
            best = few + more, before + ("：" if joint[0] == ": " else "；") + after
    known[text] = best
    return best


@lru_cache(1000)
def _form(english: str) -> tuple[list[str], str]:
    """The fixed pieces of a message of the tables, and the pattern of what it may become."""
    parts = re.split(r"({_?})", english)
    return parts[::2], "".join({"{}": "(.*?)", "{_}": r"(\S+)"}.get(part) or re.escape(part) for part in parts)


def _filled(chinese: str, holes: list[str]) -> str:
    left = iter(holes)
    return re.sub(r"{(\d*)}", lambda hole: holes[int(hole[1])] if hole[1] else next(left), chinese)


class Help(argparse.HelpFormatter):
    """argparse's help in Chinese, whose characters are two columns wide and need no blank to break at."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, in_chinese("usage") + ": " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and in_chinese(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and in_chinese(text))

    def _get_help_string(self, action: Any) -> str:
        return in_chinese(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return list(_folded(text, width))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in _folded(text, width - len(indent)))


def _folded(text: str, columns: int) -> Iterator[str]:
    """Lines of so many columns, broken at blanks or between Chinese characters, but not before what closes."""
    line = ""
    for piece in re.findall(r" |[（“]*(?:[⺀-\uffef]|[^ ⺀-\uffef]+)[，。、；：！？）”]*", text):
        if line and am.width(line + piece) > columns:
            yield line.rstrip()
            line = ""
        line += piece if line else piece.lstrip()
    yield line
